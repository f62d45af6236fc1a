"""The peers of bench/failover.py: plain Spark with a parent that restarts it, and Rekindle under a policy.

Both are processes of their own, in sessions of their own. Whatever was started is ended by its process id in ``close``,
which is bounded in time. A peer that ends by itself, or does not get where it should, is a PeerFailed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench._ending import END_S, end_rekindle, end_session, kill, session, uninterrupted
from bench._pauses import ACTIVE, PASSIVE, PLAIN, POOL, Output
from rekindle.home import open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Incarnation, Member
from rekindle.node.worker import COMPUTING, STANDBY
from rekindle.recovery.placement import in_pool

HERE = Path(__file__).resolve().parent
NODES = {PASSIVE: 2, ACTIVE: 2, POOL: 2}
ROWS_MAX = 1_000_000
FOR_S = 3600
IDLE_S = 300
HOME_S = 60.0
LAG_MAX = 5  # epochs; a report is up to a heartbeat old


class PeerFailed(Exception):
    """What a peer did not do, with what it said."""


class Peer(ABC):
    """``run`` is a folder of its own; its input is the files of ``source``."""

    def __init__(self, name: str, run: Path, source: Path, cores: int) -> None:
        self.name = name
        self.run = run
        self.source = source
        self.cores = cores
        self.output = run / "output"
        self._seen: dict[str, Output] = {}

    def __enter__(self) -> Peer:
        self.run.mkdir()
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        with uninterrupted():
            self.close()

    def outputs(self) -> list[Output]:
        """All that became visible at the sink so far."""
        for folder, at_s in self._appeared():
            self._seen[folder] = Output(at_s, sum(pq.read_metadata(p).num_rows for p in _parts(self.output / folder)))
        return list(self._seen.values())

    def results(self) -> Iterator[pa.Table]:
        """The content of every output so far, in order."""
        self.outputs()
        for folder in sorted(self._seen):
            for part in _parts(self.output / folder):
                with pq.ParquetFile(part) as file:
                    yield file.read()

    def kill(self) -> float:
        """SIGKILL the process that does the work, and all that it started; returns when."""
        victims = self._victims()
        at_s = time.time()
        kill(victims)
        return at_s

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """Raise PeerFailed if it ended without being asked to."""

    @abstractmethod
    def redundant(self) -> bool:
        """Whether all that the policy wants runs and is ready, and nothing that was killed counts any more."""

    @abstractmethod
    def account(self) -> tuple[int, int]:
        """By its own record: how many rows of input were computed, and how many were dropped."""

    @abstractmethod
    def events(self) -> list[tuple[float, str, str]]:
        """What is on record of what happened: when, what, to whom."""

    @abstractmethod
    def _appeared(self) -> Iterable[tuple[str, float]]:
        """The folders of outputs not yet seen, and when each became visible."""

    @abstractmethod
    def _victims(self) -> list[psutil.Process]: ...

    def _environment(self) -> dict[str, str]:
        said = {"BENCH_INPUT": self.source, "BENCH_OUTPUT": self.output, "BENCH_ROWS_MAX": ROWS_MAX}
        policy = {"BENCH_POLICY": self.name}
        return {**os.environ, **{name: str(value) for name, value in said.items()}, **policy}

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.run / "console", "ab") as console:
            return subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def story(self) -> str:
        """What it said last, for whoever reads of a failure."""
        console = self.run / "console"
        return "\n".join(console.read_text(errors="replace").splitlines()[-8:]) if console.exists() else ""


class Plain(Peer):
    """bench/plain_spark.py, started again from its checkpoint as soon as it ends."""

    def __init__(self, run: Path, source: Path, cores: int) -> None:
        super().__init__(PLAIN, run, source, cores)
        self._log = run / "log"
        self._read = 0
        self._killed = 0
        self._deaths = 0
        self._ending = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = threading.Thread(target=self._tend, name="parent", daemon=True)

    def start(self) -> None:
        self._parent.start()

    def close(self) -> None:
        with self._lock:
            self._ending = True
            process = self._process
        if process is not None:
            end_session(process)
        self._parent.join(END_S)

    def check(self) -> None:
        if self._deaths > self._killed:
            raise PeerFailed(f"plain Spark ended by itself\n{self.story()}")

    def redundant(self) -> bool:
        return self._process is not None and self._process.poll() is None and self._deaths == self._killed

    def account(self) -> tuple[int, int]:
        return 0, 0

    def events(self) -> list[tuple[float, str, str]]:
        return []

    def _appeared(self) -> Iterable[tuple[str, float]]:
        if not self._log.exists():
            return
        with open(self._log) as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith("\n"):
                    return
                self._read += len(line)
                said: dict[str, Any] = json.loads(line)
                folder = f"batch={said['batch']:06d}"
                if folder not in self._seen:  # a batch that Spark ran again is nothing new
                    yield folder, said["ended_s"]

    def _victims(self) -> list[psutil.Process]:
        assert self._process is not None
        self._killed += 1
        return session(self._process.pid)

    def _tend(self) -> None:
        script = [sys.executable, str(HERE / "plain_spark.py"), str(self.source), str(self.output)]
        options = ["--cores", str(self.cores), "--files-per-batch", "1000", "--idle-s", str(IDLE_S)]
        while True:
            with self._lock:
                if self._ending or self._deaths > self._killed:
                    return
                process = self._launch([*script, str(self.run / "checkpoint"), str(self._log), *options])
                self._process = process
            process.wait()
            self._deaths += 1


class Rekindle(Peer):
    """bench/failover_pipeline.py under a policy. The nodes are found through the keeper."""

    def __init__(self, name: str, run: Path, source: Path, cores: int) -> None:
        super().__init__(name, run, source, cores)
        self._home = run / "home"
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: Keeper | None = None
        self._killed: set[Incarnation] = set()

    def start(self) -> None:
        script = [sys.executable, "-m", "rekindle", "run", str(HERE / "failover_pipeline.py"), "--json"]
        options = ["--home", str(self._home), "--for", f"{FOR_S}s", "--cores", str(self.cores)]
        self._process = self._launch([*script, *options])
        deadline_s = time.monotonic() + HOME_S
        while not (self._home / "home.json").exists():
            self.check()
            if time.monotonic() > deadline_s:
                raise PeerFailed(f"{self.name} made no home\n{self.story()}")
            time.sleep(0.05)
        self._keeper = open_keeper(None, home=open_home(self._home))

    def close(self) -> None:
        if self._process is not None:
            end_rekindle(self._process, self._home)
        if self._keeper is not None:
            self._keeper.close()

    def check(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise PeerFailed(f"{self.name} ended by itself\n{self.story()}")

    def redundant(self) -> bool:
        live = self.keeper.members()
        head = self.keeper.head("counts")
        return (
            len(live) >= NODES.get(self.name, 1)
            and not any(member.incarnation in self._killed for member in live)
            and all(member.report.get("phase") == "ready" and _in_place(member, head) for member in live)
        )

    def account(self) -> tuple[int, int]:
        sizes = {int(epoch.epoch): epoch.output.rows for epoch in self.keeper.epochs("rows", after=0)}
        dropped = {int(e.epoch): e.output.dropped for e in self.keeper.epochs("counts", after=0)}
        computed = 0
        for claim in self.keeper.claims("counts"):
            if claim.epoch in dropped and dropped[claim.epoch] is None:
                span = claim.spans["rows"]
                computed += sum(sizes[epoch] for epoch in range(span.after + 1, span.through + 1))
        return computed, sum(rows for rows in dropped.values() if rows is not None)

    def events(self) -> list[tuple[float, str, str]]:
        return [(event.at_s, event.kind, event.subject) for event in self.keeper.events()]

    def story(self) -> str:
        if self._keeper is None:
            return super().story()
        members = [f"{m.node} {m.incarnation} {m.state} {dict(m.report)}" for m in self._keeper.members()]
        return "\n".join([super().story(), f"counts is at epoch {self._keeper.head('counts')}", *members])

    @property
    def keeper(self) -> Keeper:
        assert self._keeper is not None
        return self._keeper

    def _appeared(self) -> Iterable[tuple[str, float]]:
        if not self.output.exists():
            return
        for entry in sorted(os.scandir(self.output), key=lambda e: e.name):
            if entry.name.startswith("epoch=") and entry.name not in self._seen:
                yield entry.name, entry.stat().st_ctime  # the time of the rename that showed it

    def _victims(self) -> list[psutil.Process]:
        member = self._worker()
        self._killed.add(member.incarnation)
        found = session(member.pid)
        if member.report.get("jvm_pid") not in {process.pid for process in found}:
            raise PeerFailed(f"the JVM of {self.name} is not where its node says\n{member.report}")
        return found

    def _worker(self) -> Member:
        """Who computes alone, or who delivers where all compute."""
        live = {member.incarnation: member for member in self.keeper.members()}
        owners = self.keeper.owners()
        for subject in ("counts", "counts_sink", "rows"):
            if subject in owners and owners[subject].incarnation in live:
                return live[owners[subject].incarnation]
        if len(live) == 1:
            return next(iter(live.values()))
        raise PeerFailed(f"nobody owns the fragment of {self.name}\n{owners}")


def _in_place(member: Member, head: int) -> bool:
    """Whether a node could take over: warm in the pool, with layers restored, or computing and not behind."""
    if in_pool(member.node):
        return True
    said = member.report.get("replicas", {}).get("counts", {})
    if said.get("role") == STANDBY:
        return bool(said["epoch"] > 0)
    return bool(said.get("role") == COMPUTING and said["epoch"] >= head - LAG_MAX)


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))
