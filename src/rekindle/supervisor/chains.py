"""What a fail-over is: a chain of moments, and for how long streams paused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STEPS = ("died", "noticed", "fenced", "chosen", "restored", "dropped", "first epoch", "ready", "given up")
"""In this order if they happen at the same time. 'ready' is when the redundancy is whole again."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at a fail-over: one of STEPS, to ``subject``, brought about by incarnation ``by``."""

    step: str
    at_s: float
    detail: str
    subject: str = ""
    by: int | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a stream had no new epoch. The times and epochs are None as far as there are none.

    ``by`` made the first epoch after the death; ``was_computing`` says that it had computed before the death already.
    """

    stream: str
    fragment: str
    last_epoch: int | None
    last_s: float | None
    first_epoch: int | None
    first_s: float | None
    by: int | None
    was_computing: bool

    @property
    def pause_s(self) -> float | None:
        return None if self.first_s is None or self.last_s is None else self.first_s - self.last_s


@dataclass(frozen=True, slots=True)
class Failover:
    """``died_s`` is exact for a node that was killed by hand, otherwise its last sign of life. ``pauses`` are of the
    streams that it computed; where it only stood by nothing paused."""

    node: str
    incarnation: int
    why: str
    died_s: float
    noticed_s: float
    moments: tuple[Moment, ...]
    pauses: tuple[Pause, ...]

    def first(self, step: str, subject: str | None = None) -> Moment | None:
        """The first moment of that step (and of that subject)."""
        found = (m for m in self.moments if m.step == step and subject in (None, m.subject))
        return next(found, None)

    def to_json(self) -> dict[str, Any]:
        ready = self.first("ready")
        return {
            "node": self.node,
            "incarnation": self.incarnation,
            "why": self.why,
            "died_s": self.died_s,
            "noticed_s": self.noticed_s,
            "chain": [moment_to_json(m, self.died_s) for m in self.moments],
            "streams": [
                {
                    "stream": p.stream,
                    "fragment": p.fragment,
                    "last_epoch": p.last_epoch,
                    "last_s": p.last_s,
                    "first_epoch": p.first_epoch,
                    "first_s": p.first_s,
                    "by": p.by,
                    "was_computing": p.was_computing,
                    "pause_s": None if p.pause_s is None else round(p.pause_s, 3),
                }
                for p in self.pauses
            ],
            "redundancy_restored_after_s": None if ready is None else round(ready.at_s - self.died_s, 3),
        }


def moment_to_json(moment: Moment, since_s: float) -> dict[str, Any]:
    after_s = round(moment.at_s - since_s, 3)
    return {
        "step": moment.step,
        "at_s": moment.at_s,
        "after_s": after_s,
        "subject": moment.subject,
        "by": moment.by,
        "detail": moment.detail,
    }


def killed_by_hand(pid: int, others: int) -> str:
    return f"SIGKILL, process {pid} and {others} that it started"
