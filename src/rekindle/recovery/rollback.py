"""Rollback: another node starts from the newest checkpoint and replays the claims after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.recovery.policy import Layers, Policy, Situation, Start, furthest, layers_of


@dataclass(frozen=True)
class Rollback(Policy):
    """One replica. When it dies another one starts from the furthest checkpoint. The default.

    ``stores`` are directories or URLs that fsspec can reach; without any the layers go to the home. ``copies=0`` ships
    nothing: then a checkpoint that is lost is computed again from the first input, which is kept for it.
    """

    stores: Sequence[str] | str = ()
    copies: int = 1
    interval: float = 5.0

    def __post_init__(self) -> None:
        layers_of(self.stores, self.copies, self.interval)

    @property
    def layers(self) -> Layers | None:
        return layers_of(self.stores, self.copies, self.interval)

    def start(self, now: Situation) -> Start:
        return furthest(now)

    def describe(self) -> str:
        shipped = self.layers.describe() if self.layers is not None else "no layers shipped, all input kept"
        return f"rollback; {shipped}"
