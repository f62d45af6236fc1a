"""The faults that a pipeline is tried with.

Fault model. Survived: the death of any process at any moment, alone or together with all the others; a process that is
stopped and goes on, before or after it was replaced; a keeper that is restarted, or that a node cannot reach for a
while, in one direction or both; a disk of the home that is full or slow for a while; a clock that jumps. Noticed, and
survived once the file is back: a segment that is damaged or gone. Survived while the claims are kept: a layer that is
damaged or gone, with the local checkpoints gone as well. Lost: nothing, but what ``rk.Gap()`` drops, on record. Not
injected: power cuts, disks that lie about fsync, damage to the keeper's own files.

Every fault proves that it happened, or says why it could not be injected: ``NotInjected`` with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

One = TypeVar("One")

PROCESSES = ("kill-node", "kill-jvm", "kill-worker", "kill-supervisor", "kill-all", "stop-node", "step")
STORAGE = ("full-disk", "slow-disk", "corrupt-segment", "missing-segment", "corrupt-layer", "missing-layer")
KEEPER = ("restart-keeper", "cut-keeper", "cut-to-keeper", "cut-from-keeper")
CLOCK = ("jump-clock",)
KINDS = (*PROCESSES, *STORAGE, *KEEPER, *CLOCK)

MEANING = {
    "kill-node": "SIGKILL of a node with all of its processes",
    "kill-jvm": "SIGKILL of a node's JVM",
    "kill-worker": "SIGKILL of Spark's Python workers and their daemon",
    "kill-supervisor": "SIGKILL of the supervisor; another one starts",
    "kill-all": "SIGKILL of the supervisor and every node at once",
    "stop-node": "SIGSTOP of a node for longer than its lease, then SIGCONT",
    "step": "SIGKILL of a node's Python process at a named step of the protocol",
    "full-disk": "the file system of the home is full for some seconds",
    "slow-disk": "each fsync of the home takes long for some seconds",
    "corrupt-segment": "a bit of a segment that is still to be read flips; later the file is put back",
    "missing-segment": "a segment that is still to be read is gone; later it is put back",
    "corrupt-layer": "all local checkpoints are gone, and a bit of the newest layer flips",
    "missing-layer": "all local checkpoints are gone, and the newest layer as well",
    "restart-keeper": "the PostgreSQL server is stopped, and started again",
    "cut-keeper": "nothing passes between a node and the keeper for longer than its lease",
    "cut-to-keeper": "nothing passes from a node to the keeper for longer than its lease",
    "cut-from-keeper": "nothing passes from the keeper to a node for longer than its lease",
    "jump-clock": "the nodes' clock jumps by an hour, ahead or back, and back to what it was",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault to come, when the share ``at`` of the output is there. ``pick`` in [0, 1) chooses whatever there is a
    choice of: a node, an epoch, a direction. ``step`` is given for the kind 'step' only."""

    kind: str
    at: float
    pick: float
    step: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.step}".strip()

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "step": self.step or None, "at": round(self.at, 3), "pick": round(self.pick, 3)}


@dataclass(frozen=True, slots=True)
class Injected:
    """What came of a fault: ``proof`` that it happened, or why it did not, and from when to when."""

    fault: Fault
    happened: bool
    proof: str
    since_s: float
    until_s: float

    def to_json(self) -> dict[str, Any]:
        return {
            **self.fault.to_json(),
            "happened": self.happened,
            "proof": self.proof,
            "since_s": self.since_s,
            "until_s": self.until_s,
        }


class NotInjected(Exception):
    """The fault could not be brought about; the message says why."""


def choose(among: Sequence[One], pick: float, what: str) -> One:
    """One of several, by a number in [0, 1)."""
    if not among:
        raise NotInjected(f"there was no {what}")
    return among[min(int(pick * len(among)), len(among) - 1)]
