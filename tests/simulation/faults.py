"""Faults, and what may come of them.

Survived, with every invariant kept at every moment and nothing lost, duplicated or changed in the end:

    crash          a node is killed, at a time or between any two of its steps; all of its threads at once
    pause          a node is stopped, and goes on later as if nothing had been: by then it may be fenced
    hang           a node is stopped for good
    slow           everything that a node does takes many times as long
    cut            a node or the supervisor does not reach the keeper, or is not reached by its answers, or neither
    lost answer    the keeper does what it is asked, the answer is lost, and the caller asks again
    late           a request or an answer takes longer than others
    clock          the wall clock of a node jumps, forwards or backwards
    disk loss      all checkpoints on the nodes' disk are gone, and the nodes with them
    damage         a file of a checkpoint that a dead replica left cannot be read
    layer          an object in a store is damaged or lost, where another store has a copy
    store          a store is away, though not for longer than an epoch is tried again
    supervisor     it is killed, and another one is started later
    stop           the run is ended by hand, and started again

May be lost: under gap recovery what a replica had not published when it died; then it is on record how many rows.
Not part of the model: two copies of one object damaged, segments damaged, records lost, a disk that lies about fsync.
"""

from __future__ import annotations

from random import Random

TIMED = ("crash", "pause", "slow", "cut", "clock", "disk_loss", "damage", "layer", "store", "supervisor", "stop")
EVERYWHERE = ("crash_at_step", "pause_at_step", "lost_answer", "late")


class Faults:
    """Which faults a schedule has, and when. Each schedule leaves some kinds out, so that the others get their turn."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.kinds = [kind for kind in TIMED if random.random() < 0.35]
        self._everywhere = {kind: random.choice([0.002, 0.01]) for kind in EVERYWHERE if random.random() < 0.5}
        self._left = random.randint(1, 4)  # at steps
        self.until_s = random.uniform(4.0, 9.0)
        self.over = not self.kinds and not self._everywhere

    def pause_s(self) -> float:
        """Until the next timed fault."""
        return self._random.expovariate(1.0) + 0.1

    def kind(self) -> str | None:
        return self._random.choice(self.kinds) if self.kinds else None

    def length_s(self) -> float:
        """How long something lasts: shorter than a lease, or longer."""
        return self._random.choice([0.3, 1.0, 3.0, 6.0]) * self._random.uniform(0.5, 1.5)

    def hangs(self) -> bool:
        """Whether a node that is paused never goes on."""
        return self._random.random() < 0.25

    def at_step(self) -> str | None:
        """What happens to a node between two steps: ``crash``, ``pause`` or nothing."""
        if self.over or self._left <= 0:
            return None
        chance = self._random.random()
        crash, pause = self._everywhere.get("crash_at_step", 0.0), self._everywhere.get("pause_at_step", 0.0)
        if chance < crash + pause:
            self._left -= 1
            return "crash" if chance < crash else "pause"
        return None

    def loses_answer(self) -> bool:
        return not self.over and self._random.random() < self._everywhere.get("lost_answer", 0.0)

    def late_s(self) -> float:
        """How much longer than usual a message takes."""
        if self.over or "late" not in self._everywhere:
            return 0.0
        return self._random.expovariate(2.0) if self._random.random() < 0.01 else 0.0
