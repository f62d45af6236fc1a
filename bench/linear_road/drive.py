"""One run: the pipeline is started, builds its state from the warm files, gets a file a second, and is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from bench._ending import end_rekindle, kill, session, uninterrupted
from bench._place import NODES, Place, environment
from bench.linear_road.staging import Staged
from rekindle.home import open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Member
from rekindle.node.worker import COMPUTING, STANDBY

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = Path(__file__).with_name("pipeline.py")
FRAGMENTS = ("toll_calculator", "collector")
FOR_S = 3600
POLL_S = 0.1
READY_S = 180.0
WARM_S_MAX = 600.0
DRAIN_S = 60.0
BEHIND_S_MAX = 30.0
BEGIN_IN_S = 1.0
KILL_AT = 0.4


class RunFailed(Exception):
    """What the pipeline did not do, with what it said."""


@dataclass(frozen=True, slots=True)
class Paced:
    """What came of the paced part. ``fed`` of its files were fed before the run was given up, if it was. ``cores`` is
    how many processors the pipeline's processes kept busy (without those that died), ``epochs`` how many each fragment
    made."""

    began_s: float
    fed: int
    feeder_late_s: float
    killed_s: float | None
    warm_took_s: float
    cores: float
    epochs: dict[str, int]


class Run:
    """``folder`` is one of its own; the input is fed into it."""

    def __init__(self, folder: Path, place: Place, cores: int, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._place = place
        self._cores = cores
        self._say = say
        self._home = folder / "home"
        self._input = place.input / "reports"
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: Keeper | None = None
        self._seen: dict[str, tuple[int, int]] = {}  # answers, newest second

    def drive(self, staged: Staged, *, with_kill: bool) -> Paced:
        """Raises RunFailed. What was started is ended in any case."""
        self._input.mkdir(parents=True)
        for file in staged.warm:
            os.rename(file, self._input / file.name)
        with self._started():
            began_s = time.monotonic()
            self._until(self._ready, READY_S, "become ready")
            self._until(lambda: self._newest() >= staged.warm_s - 1, WARM_S_MAX, "build its state")
            warm_took_s = time.monotonic() - began_s
            self._say(f"{self._newest() + 1} s of warm-up are answered after {warm_took_s:.0f} s")
            self._until(self._redundant, READY_S, "become ready for a fail-over")
            paced = self._pace(staged, warm_took_s, with_kill=with_kill)
            expected = sum(len(of) for of in staged.answers.values())
            if paced.fed == len(staged.paced):
                self._drain(expected)
            return paced

    def _pace(self, staged: Staged, warm_took_s: float, *, with_kill: bool) -> Paced:
        heads = {name: self.keeper.head(name) for name in FRAGMENTS}
        busy_s = self._busy_s()
        began_s = time.time() + BEGIN_IN_S
        kill_at = int(len(staged.paced) * KILL_AT) if with_kill else -1
        late_s, fed, killed_s = 0.0, 0, None
        for number, file in enumerate(staged.paced):
            due_s = began_s + number
            time.sleep(max(0.0, due_s - time.time()))
            os.rename(file, self._input / file.name)
            late_s = max(late_s, time.time() - due_s)
            fed += 1
            if number == kill_at:
                time.sleep(0.3)
                killed_s = self._kill()
            if number % 10 == 9:
                behind = staged.warm_s + number - self._newest()
                self._check()
                self._say(f"{number + 1} of {len(staged.paced)} s fed, answers are {behind} s behind")
                if behind > BEHIND_S_MAX and not with_kill:
                    self._say("given up: it does not keep up")
                    break
        cores = (self._busy_s() - busy_s) / (time.time() - began_s)
        epochs = {name: self.keeper.head(name) - heads[name] for name in FRAGMENTS}
        return Paced(began_s, fed, late_s, killed_s, warm_took_s, cores, epochs)

    def _drain(self, expected: int) -> None:
        """Until all answers are there that are expected, or nothing more comes."""
        last, since_s = -1, time.monotonic()
        while time.monotonic() - since_s < DRAIN_S:
            self._newest()
            count = sum(answers for answers, _ in self._seen.values())
            if count >= expected:
                return
            if count != last:
                last, since_s = count, time.monotonic()
            self._check()
            time.sleep(POLL_S)

    # -- the process ---------------------------------------------------------------------------------

    @contextmanager
    def _started(self) -> Iterator[None]:
        command = [sys.executable, "-m", "rekindle", "run", str(PIPELINE), "--home", str(self._home), "--json"]
        command += ["--for", f"{FOR_S}s", "--cores", str(self._cores)]
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environ = {**os.environ, **environment(self._place), "PYTHONPATH": os.pathsep.join(paths)}
        with open(self._folder / "console", "wb") as console:
            self._process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        try:
            self._until((self._home / "home.json").exists, READY_S, "make its home")
            self._keeper = open_keeper(None, home=open_home(self._home))
            yield
        finally:
            with uninterrupted():
                end_rekindle(self._process, self._home)
                if self._keeper is not None:
                    self._keeper.close()

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            raise RunFailed("the pipeline is not started")
        return self._keeper

    def _check(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise RunFailed(f"the pipeline ended by itself\n{self._story()}")
        failures = self.keeper.failures() if self._keeper is not None else []
        if failures:
            raise RunFailed(f"a fragment failed\n{failures[0]}")

    def _until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            self._check()
            if time.monotonic() > deadline_s:
                raise RunFailed(f"the pipeline did not {what} within {timeout_s:g} s\n{self._story()}")
            time.sleep(POLL_S)

    def _story(self) -> str:
        console = self._folder / "console"
        return "\n".join(console.read_text(errors="replace").splitlines()[-12:]) if console.exists() else ""

    # -- what it has done ----------------------------------------------------------------------------

    def _newest(self) -> int:
        """The newest second that has an answer; -1 if there is none."""
        if self._place.output.exists():
            for entry in os.scandir(self._place.output):
                if entry.name.startswith("epoch=") and entry.name not in self._seen:
                    parts = [pq.read_table(part, columns=["time"]) for part in Path(entry.path).glob("*.parquet")]
                    newest = [int(part["time"].to_numpy().max()) for part in parts if part.num_rows]
                    self._seen[entry.name] = (sum(part.num_rows for part in parts), max(newest, default=-1))
        return max((newest for _, newest in self._seen.values()), default=-1)

    def _ready(self) -> bool:
        return any(member.report.get("phase") == "ready" for member in self.keeper.members())

    def _redundant(self) -> bool:
        """Whether all nodes that the policy wants are there and could take over."""
        live = self.keeper.members()
        return len(live) >= NODES.get(self._place.policy, 1) and all(
            member.report.get("phase") == "ready" and (member.node.startswith("pool") or _in_place(member))
            for member in live
        )

    def _busy_s(self) -> float:
        """Processor seconds of all that the pipeline runs now."""
        leaders = [member.pid for member in self.keeper.members()]
        found = 0.0
        for process in {process.pid: process for leader in leaders for process in session(leader)}.values():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            found += times.user + times.system
        return found

    def _kill(self) -> float:
        """SIGKILL the node that does the work, its JVM and its Python workers; returns when."""
        member = self._worker()
        victims = session(member.pid)
        at_s = time.time()
        kill(victims)
        self._say(f"killed {member.node} ({len(victims)} processes)")
        return at_s

    def _worker(self) -> Member:
        """Who computes alone, or who reads and delivers where all compute."""
        live = {member.incarnation: member for member in self.keeper.members()}
        owners = self.keeper.owners()
        for subject in (*FRAGMENTS, "collector_sink", "reports"):
            if subject in owners and owners[subject].incarnation in live:
                return live[owners[subject].incarnation]
        if len(live) == 1:
            return next(iter(live.values()))
        raise RunFailed(f"nobody owns anything: {owners}")


def _in_place(member: Member) -> bool:
    said = [member.report.get("replicas", {}).get(name, {}) for name in FRAGMENTS]
    return all(of.get("role") == COMPUTING or (of.get("role") == STANDBY and of.get("epoch", 0) > 0) for of in said)
