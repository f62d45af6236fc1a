"""Upstream backup: nothing is shipped; an empty replica replays the input that its state still depends on."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import StateDamaged
from rekindle.keeper.records import EpochNumber
from rekindle.recovery.policy import Fork, Policy, Replay, Situation, Start


@dataclass(frozen=True)
class UpstreamBackup(Policy):
    """The input streams are the backup. How far back the state reaches follows from its watermarks and windows;
    a state without such a bound is refused.
    """

    @property
    def needs_bounded_memory(self) -> bool:
        return True

    def start(self, now: Situation) -> Start:
        if now.local is not None and now.intact:
            return Fork()
        base = EpochNumber((now.depends_on if now.depends_on is not None else 1) - 1)
        if base + 1 < now.oldest_claim and now.claimed:
            raise StateDamaged(
                f"the state depends on epoch {base + 1}, whose claim was trimmed",
                detail=f"the oldest claim that is kept is of epoch {now.oldest_claim}",
                hint="start a new home, or bring the keeper's records back",
            )
        return Replay(base)

    def describe(self) -> str:
        return "upstream backup: an empty replica replays the input that the state depends on"
