"""Passive standby: warm replicas restore layers as they arrive, and compute only after they have taken over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.errors import DeclarationError
from rekindle.recovery.policy import Layers, Policy, Situation, Start, furthest, layers_of


@dataclass(frozen=True)
class PassiveStandby(Policy):
    """Layers go to ``copies`` of the ``stores`` every ``interval`` seconds; ``replicas`` - 1 nodes stand by, their
    Spark up, the fragment's plan run in, the layers restored. A short interval leaves less to replay, and costs more.
    """

    interval: float = 1.0
    copies: int = 1
    stores: Sequence[str] | str = ()
    replicas: int = 2

    def __post_init__(self) -> None:
        if layers_of(self.stores, self.copies, self.interval) is None:
            raise DeclarationError("a passive standby lives on layers", hint="copies must be at least 1")
        if not isinstance(self.replicas, int) or self.replicas < 2:
            raise DeclarationError(f"a passive standby needs 2 replicas or more, not {self.replicas!r}")

    @property
    def layers(self) -> Layers | None:
        return layers_of(self.stores, self.copies, self.interval)

    def start(self, now: Situation) -> Start:
        return furthest(now)

    def describe(self) -> str:
        shipped = self.layers.describe() if self.layers is not None else ""
        return f"passive standby, {self.replicas - 1} warm; {shipped}"
