"""Active standby: symmetric replicas compute all the time, and the first to publish wins each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.errors import DeclarationError
from rekindle.recovery.policy import Layers, Policy, Situation, Start, furthest, layers_of


@dataclass(frozen=True)
class ActiveStandby(Policy):
    """``replicas`` nodes compute the fragment; all but one of them may die without a pause. A replica that comes back
    forks or restores the furthest checkpoint and catches up while the others go on.
    """

    replicas: int = 2
    stores: Sequence[str] | str = ()
    copies: int = 1
    interval: float = 5.0

    def __post_init__(self) -> None:
        if not isinstance(self.replicas, int) or self.replicas < 2:
            raise DeclarationError(f"an active standby needs 2 replicas or more, not {self.replicas!r}")
        layers_of(self.stores, self.copies, self.interval)

    @property
    def all_compute(self) -> bool:
        return True

    @property
    def layers(self) -> Layers | None:
        return layers_of(self.stores, self.copies, self.interval)

    def start(self, now: Situation) -> Start:
        return furthest(now)

    def describe(self) -> str:
        shipped = self.layers.describe() if self.layers is not None else "no layers shipped, all input kept"
        return f"active standby, {self.replicas} replicas; {shipped}"
