"""A soak: the pipeline ``everything`` under random faults and load for as long as one likes, every row checked.

The faults come in the order that the seed gives, at even distances in time; one that needs a node that is ready waits
for it. The same seed gives the same order, not the same moments.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Protocol

import psutil

from rekindle.errors import KeeperUnavailable, RekindleError
from rekindle.node.prescribed import Prescribed
from rekindle.node.steps import STEPS
from rekindle.supervisor.processes import Processes
from rekindle.verify.faults import Fault, Injected
from rekindle.verify.faults_processes import jump_clock
from rekindle.verify.inject import Action, inject
from rekindle.verify.soak_check import Check, is_flat
from rekindle.verify.surroundings import Surroundings
from rekindle.verify.trial import Trial

PIPELINE = Path(__file__).parent / "pipelines" / "everything.py"

WEIGHTS = {
    "kill-node": 4,
    "kill-jvm": 3,
    "kill-worker": 3,
    "kill-supervisor": 3,
    "kill-all": 1,
    "stop-node": 2,
    "slow-disk": 2,
    "full-disk": 1,
    "jump-clock": 3,
    "corrupt-layer": 1,
}
WEIGHTS_KEEPER = {"restart-keeper": 3, "cut-keeper": 1, "cut-to-keeper": 1, "cut-from-keeper": 1}
"""How often each kind comes in a round. Damaged segments are for verify: they stop a fragment, as they should."""

LEASE_S = 5.0
JUMP_S = 15.0  # the hour of verify would make every epoch old enough to be trimmed
RETAIN_S = 90.0
LOOK_S = 0.5
SAMPLE_S = 5.0
TAIL_S = 30.0  # no fault comes so shortly before the end
GAP_S = 2.0
FINISH_S = 300.0
STEPS_EVERY = 30  # epochs
MEMORY_SLACK = 256 * 2**20  # processes come and go
DISK_SLACK = 64 * 2**20


class View(Protocol):
    def say(self, text: str) -> None:
        """One remark, which stays."""

    def progress(self, doing: str, done: float) -> None:
        """How far it is, from 0 to 1. Called often."""


@dataclass(frozen=True, slots=True)
class Plan:
    folder: Path
    minutes: float
    seed: int
    faults: int
    rows_per_s: int
    postgres: bool
    cores: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    memory_bytes: int
    disk_bytes: int
    processes: int


@dataclass(slots=True)
class SoakReport:
    seed: int
    seconds: float = 0.0
    injected: list[Injected] = field(default_factory=list)
    tallies: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    dropped: int = 0

    @property
    def survived(self) -> int:
        return sum(fault.happened for fault in self.injected)

    def total(self, what: str) -> int:
        return sum(int(tally[what]) for tally in self.tallies.values())

    @property
    def memory_is_flat(self) -> bool | None:
        return is_flat([float(s.memory_bytes) for s in self.samples], grace=1.3, slack=MEMORY_SLACK)

    @property
    def disk_is_flat(self) -> bool | None:
        return is_flat([float(s.disk_bytes) for s in self.samples], grace=1.1, slack=DISK_SLACK)

    @property
    def is_good(self) -> bool:
        damage = sum(self.total(what) for what in ("lost", "duplicated", "changed"))
        checked = self.survived > 0 and self.total("checked") > 0
        grew = False in (self.memory_is_flat, self.disk_is_flat)
        return checked and not damage and not self.wrong and not grew

    def to_json(self) -> dict[str, Any]:
        kinds = Counter(fault.fault.kind for fault in self.injected if fault.happened)
        return {
            "good": self.is_good,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "faults_survived": self.survived,
            "faults_by_kind": dict(sorted(kinds.items())),
            "faults_not_injected": [f.to_json() for f in self.injected if not f.happened],
            "rows_checked": self.total("checked"),
            "rows_lost": self.total("lost"),
            "rows_duplicated": self.total("duplicated"),
            "rows_changed": self.total("changed"),
            "rows_dropped_on_record": self.dropped,
            "outputs": self.tallies,
            "memory_is_flat": self.memory_is_flat,
            "disk_is_flat": self.disk_is_flat,
            "wrong": self.wrong,
            "samples": [[round(s.at_s, 1), s.memory_bytes, s.disk_bytes, s.processes] for s in self.samples],
            "faults": [f.to_json() for f in self.injected],
        }


def deck(seed: int, faults: int, *, postgres: bool) -> list[Fault]:
    """The faults in their order: round after round, each shuffled, so that every kind keeps its share."""
    chance = Random(seed)
    weights = WEIGHTS | (WEIGHTS_KEEPER if postgres else {})
    one_round = [kind for kind, weight in weights.items() for _ in range(weight)]
    found: list[Fault] = []
    while len(found) < faults:
        found += [Fault(kind, 0.0, chance.random()) for kind in chance.sample(one_round, len(one_round))]
    return [replace(fault, at=number / faults) for number, fault in enumerate(found[:faults])]


def steps(seed: int, seconds: float) -> list[str]:
    """Kills at the named steps, every so many epochs of the stream 'clean' and of its sinks, in the words of
    REKINDLE_STEPS."""
    chance = Random(f"{seed} steps")
    found = []
    for number in range(1, int(seconds / 25)):
        step = STEPS[number % len(STEPS)]
        subject = (
            chance.choice(("files", "told")) if "delivery" in step else chance.choice(("events", "clean", "called"))
        )
        found.append(f"kill:{step}:{subject}:{number * STEPS_EVERY}")
    return found


class Soak:
    def __init__(self, plan: Plan, view: View) -> None:
        self._plan = plan
        self._view = view
        self._report = SoakReport(plan.seed)
        self._out = plan.folder / "out"
        self._check: Check | None = None
        self._looked_s = self._sampled_s = self._told_s = 0.0
        self._started_s = 0.0
        self._ends_s: float | None = None
        self._busy = False

    def run(self) -> SoakReport:
        plan = self._plan
        seconds = plan.minutes * 60
        faults = deck(plan.seed, plan.faults, postgres=plan.postgres)
        with ExitStack() as stack:
            around = stack.enter_context(Surroundings(plan.folder, postgres=plan.postgres, lease_s=LEASE_S))
            ready = stack.enter_context(around.prepared(plan.folder, {fault.kind for fault in faults}, keep=False))
            environment = {
                **ready.environment,
                "EVERYTHING_ROWS_PER_S": str(plan.rows_per_s),
                "EVERYTHING_RETAIN_S": str(RETAIN_S),
                "EVERYTHING_OUT": str(self._out),
            }
            trial = stack.enter_context(
                Trial(
                    plan.folder,
                    PIPELINE,
                    home=ready.home,
                    place=ready.place,
                    cores=plan.cores,
                    claims=Prescribed(over={"events": str(plan.folder / "over")}),
                    steps=steps(plan.seed, seconds),
                    environment=environment,
                    rest=lambda: self._tick(trial),
                )
            )
            self._started_s = time.time()
            trial.start()
            self._check = Check(trial.home, self._out, plan.rows_per_s)
            known = ready.known | {"jump-clock": partial(jump_clock, jump_s=JUMP_S)}
            self._shake(trial, faults, known, seconds)
            self._finish(trial)
        self._report.seconds = time.time() - self._started_s
        return self._report

    def _shake(self, trial: Trial, faults: list[Fault], known: dict[str, Action], seconds: float) -> None:
        """Fault after fault, until the input has ended."""
        self._first_output(trial)
        began_s = time.time()
        self._ends_s = began_s + seconds
        every_s = max(0.0, seconds - TAIL_S) / max(1, len(faults))
        last_s = 0.0
        for number, fault in enumerate(faults):
            due_s = max(began_s + number * every_s, last_s + GAP_S)
            trial.until(lambda due_s=due_s: time.time() >= due_s or trial.ended is not None, seconds + FINISH_S)  # type: ignore[misc]
            if trial.ended is not None or time.time() > began_s + seconds - TAIL_S:
                self._view.say(f"{len(faults) - number} faults were left when the input ended")
                return
            try:
                one = inject(trial, fault, known)
            except RekindleError as error:
                self._wrong(f"{fault}: {error}")
                continue
            last_s = time.time()
            self._report.injected.append(one)
            self._view.say(f"{fault}: {one.proof}" if one.happened else f"{fault}: not injected, {one.proof}")

    def _first_output(self, trial: Trial) -> None:
        if not trial.until(lambda: trial.heads().get("rolled", 0) > 0 or trial.ended is not None, 300):
            raise trial.failure("no output within 300 s")
        if trial.ended is not None:
            raise trial.failure(f"the pipeline ended at once, with exit code {trial.ended}")

    def _finish(self, trial: Trial) -> None:
        """Wait until the pipeline has used up all of its input, and check the rest."""
        plan = self._plan
        if not trial.until(lambda: trial.ended is not None, plan.minutes * 60 + FINISH_S):
            self._wrong(f"the pipeline did not come to its end within {FINISH_S:g} s after its input")
        elif trial.ended != 0:
            self._wrong(f"'rekindle run' ended with exit code {trial.ended}: {trial.summary().get('failures')}")
        if not (plan.folder / "over").exists():
            self._wrong("the run ended before its input did")
        check = self._check
        if check is None:
            return
        check.finish(trial.keeper)
        self._report.tallies = {name: tally.to_json() for name, tally in check.tallies.items()}
        self._report.dropped = check.dropped
        self._report.wrong += check.missed
        for item in trial.marks():
            _, step, subject, epoch = item.split(":")
            at_s = (trial.marks_folder / item.replace(":", "-")).stat().st_mtime
            where = f"at {step} of epoch {epoch} of {subject}"
            self._report.injected.append(Injected(Fault("step", 0.0, 0.0, step), True, where, at_s, at_s))

    def _tick(self, trial: Trial) -> None:
        """Check and measure, now and then."""
        now_s = time.time()
        if self._busy or self._check is None:
            return
        self._busy = True  # what is done here waits in turn
        try:
            if now_s - self._looked_s > LOOK_S:
                self._looked_s = now_s
                self._check.look(trial.keeper)
            if now_s - self._sampled_s > SAMPLE_S:
                self._sampled_s = now_s
                self._report.samples.append(self._sample(trial))
        except KeeperUnavailable:
            pass  # it is looked at again
        finally:
            self._busy = False
        if self._ends_s is not None and now_s > self._ends_s:
            (self._plan.folder / "over").touch()
        if now_s - self._told_s > LOOK_S:
            self._told_s = now_s
            done = (now_s - self._started_s) / (self._plan.minutes * 60)
            survived = self._report.survived + len(trial.marks())
            self._view.progress(f"{survived} faults, {self._check.checked:,} rows checked", min(done, 1.0))

    def _sample(self, trial: Trial) -> Sample:
        processes = Processes(trial.home.id)
        try:
            pids = [pid for found in processes.incarnations().values() for pid in found]
        finally:
            processes.close()
        memory = 0
        for pid in (*pids, trial.runs[-1].pid):
            try:
                memory += psutil.Process(pid).memory_info().rss
            except psutil.Error:
                continue  # it has just ended
        return Sample(time.time() - self._started_s, memory, _size(trial.root), len(pids))

    def _wrong(self, what: str) -> None:
        self._report.wrong.append(what)
        self._view.say(f"WRONG: {what}")


def _size(folder: Path) -> int:
    """The bytes of all files in a folder, those with several names once."""
    seen: dict[int, int] = {}
    stack = [folder]
    while stack:
        try:
            for path in stack.pop().iterdir():
                if path.is_dir() and not path.is_symlink():
                    stack.append(path)
                else:
                    stat = path.lstat()
                    seen[stat.st_ino] = stat.st_size
        except OSError:
            continue  # removed meanwhile
    return sum(seen.values())
