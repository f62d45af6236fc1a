"""Gap recovery: the next replica starts empty at the newest input, and what was missed is dropped, on record."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.keeper.records import EpochNumber
from rekindle.recovery.policy import AT_MOST_ONCE, Fork, Jump, Policy, Replay, Situation, Start


@dataclass(frozen=True)
class Gap(Policy):
    """Nothing is kept for recovery. After a death the state is empty, and the input up to then is dropped: each
    dropped epoch is published without rows and says how many rows of input it dropped. After a clean end (Ctrl-C)
    nothing is dropped.
    """

    @property
    def guarantee(self) -> str:
        return AT_MOST_ONCE

    def start(self, now: Situation) -> Start:
        if now.local is not None and now.intact:
            return Fork()
        return Replay(EpochNumber(0)) if now.claimed == 0 else Jump()

    def describe(self) -> str:
        return "gap: starts empty at the newest input, what was missed is dropped and on record"
