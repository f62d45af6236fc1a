"""A pipeline in a folder of its own, run as real processes, and everything of it ended when the scene is over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from rekindle.errors import KeeperUnavailable
from rekindle.home import Home, open_home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import Epoch, Event, Member
from rekindle.streams.segments import read_batches
from rekindle.supervisor.processes import Processes, start_ticks
from tests.faults.witness import Witness

ROOT = Path(__file__).parents[2]
PIPELINES = Path(__file__).parent / "pipelines"
RUN_S_MAX = 200
PATIENCE_S = 60.0
STILL_S = 2.0
HANG_TRIES = 10
HANG_S = 0.5

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, its summary (empty if it printed none), what it said."""

    code: int
    summary: Mapping[str, Any]
    stderr: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.summary}\n{self.stderr[-6000:]}"


class Run:
    """A supervisor's process."""

    def __init__(self, scene: Scene, process: subprocess.Popen[str], stderr: Path) -> None:
        self._scene = scene
        self.process = process
        self._stderr = stderr

    @property
    def pid(self) -> int:
        return self.process.pid

    def ends(self, timeout_s: float = RUN_S_MAX + 40) -> Ended:
        """Wait for its end."""
        try:
            out, _ = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run did not end\n{self._scene.story()}") from None
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return Ended(self.process.returncode, json.loads(lines[-1]) if lines else {}, self._stderr.read_text())

    def kill(self) -> None:
        """SIGKILL of the supervisor alone."""
        self.process.kill()
        self.process.wait()


class Scene:
    """``faults`` are planned as in REKINDLE_STEPS; ``settings`` go into the environment of the pipeline file."""

    def __init__(
        self,
        folder: Path,
        pipeline: str,
        *,
        faults: Sequence[str] = (),
        keeper: str | None = None,
        home: Path | None = None,
        **settings: str,
    ) -> None:
        self.folder = folder
        self.faults = tuple(faults)
        self.root = home or folder / "home"
        self.file = folder / f"{pipeline}.py"
        self._keeper_url = keeper
        self._marks = folder / "marks"
        self._runs: list[Run] = []
        self._witness: Witness | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._marks.mkdir(exist_ok=True)
        shutil.copy(PIPELINES / self.file.name, self.file)
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **settings}
        self._environment.pop("REKINDLE_KEEPER", None)
        if faults:
            self._environment |= {"REKINDLE_STEPS": ",".join(faults), "REKINDLE_STEPS_DIR": str(self._marks)}

    def __enter__(self) -> Scene:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None and (self.root / "home.json").exists():
            try:
                error.add_note(self.story())
            except Exception as untold:
                error.add_note(f"its story cannot be told: {untold!r}")
        if self._witness is not None:
            self._witness.close()
        for run in self._runs:
            if run.process.poll() is None:
                run.kill()
            if run.process.stdout is not None:
                run.process.stdout.close()
        self.kill_nodes()

    # -- running ---------------------------------------------------------------------------------------

    def start(self, *options: str) -> Run:
        """Start a run. It ends by itself after a while, whatever becomes of the test."""
        stderr = self.folder / f"run-{len(self._runs)}.txt"
        command = [sys.executable, "-m", "rekindle", "run", str(self.file), "--home", str(self.root), "--json"]
        command += ["--cores", "2", "--for", f"{RUN_S_MAX}s", *options]
        if self._keeper_url is not None:
            command += ["--keeper", self._keeper_url]
        with open(stderr, "w") as said:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        run = Run(self, process, stderr)
        self._runs.append(run)
        made = self.root / "home.json"
        self.until(lambda: made.exists() or process.poll() is not None, "the home is made")
        return run

    def run(self) -> Ended:
        """Run until there is nothing left to do."""
        return self.start("--until-idle", "2s").ends()

    def change_settings(self, **settings: str) -> None:
        """Change the environment of the runs to come."""
        self._environment |= settings

    def watched(self) -> Witness:
        """From now on whatever is published or delivered is seen, and must stay as it is."""
        self._witness = Witness(self.home, self._keeper_url, self.folder / "out")
        return self._witness

    def until(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait for a condition; fail if it does not come true."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"not within {timeout_s:g} s: {what}")
            time.sleep(0.02)

    # -- processes -------------------------------------------------------------------------------------

    def member(self) -> Member | None:
        """The live incarnation that has a process, if there is one."""
        with self.keeper() as keeper:
            return next((m for m in reversed(keeper.members()) if m.pid), None)

    def ready_member(self) -> Member:
        """The live incarnation, once it is ready."""
        found: list[Member] = []

        def ready() -> bool:
            member = self.member()
            if member is not None and member.report.get("phase") == "ready":
                found.append(member)
            return bool(found)

        self.until(ready, "a node is ready")
        return found[0]

    def processes_of(self, member: Member) -> list[int]:
        """All processes of an incarnation: the node, its JVM, Spark's Python daemon and workers."""
        processes = Processes(self.home.id)
        try:
            return processes.incarnations().get(member.incarnation, [])
        finally:
            processes.close()

    def kill_nodes(self) -> int:
        """SIGKILL every process of every node of this home; returns how many."""
        if not (self.root / "home.json").exists():
            return 0
        killed = 0
        processes = Processes(self.home.id)
        try:
            for incarnation in processes.incarnations():
                killed += processes.kill(incarnation, None)
            self.until(lambda: not processes.incarnations(), "the nodes are dead")
        finally:
            processes.close()
        return killed

    def caught_up(self) -> bool:
        """Whether every fragment has taken in and published all that its inputs hold, and every sink has it."""
        with self.keeper() as keeper:
            heads = keeper.heads()
            for record in keeper.streams().values():
                claim = keeper.last_claim(record.fragment)
                if claim is None or record.stream not in heads or heads[record.stream].epoch != claim.epoch:
                    return False
                for name in record.inputs:
                    if any(e.output.rows for e in keeper.epochs(name, after=claim.spans[name].through)):
                        return False
            return all(epoch == heads[stream].epoch for stream, epoch in keeper.deliveries().values())

    def finish(self, run: Run, sources: Mapping[str, int]) -> Ended:
        """End a run once its sources have brought so many rows and nothing has been left to do for a while."""
        still_since = [time.monotonic()]

        def over() -> bool:
            with self.keeper() as keeper:
                brought = {s: sum(e.output.rows for e in keeper.epochs(s, after=0)) for s in sources}
            if brought != dict(sources) or not self.caught_up():
                still_since[0] = time.monotonic()
            return time.monotonic() - still_since[0] > STILL_S

        self.until(over, "all input is taken in", timeout_s=150)
        run.process.send_signal(signal.SIGINT)
        return run.ends()

    def signal(self, member: Member, number: signal.Signals) -> None:
        """A signal to a node's whole process group, which is its own."""
        assert start_ticks(member.pid) == member.pid_started and os.getpgid(member.pid) == member.pid
        os.killpg(member.pid, number)

    def hang(self, member: Member) -> None:
        """Stop a node's processes at a moment when it is not in the middle of a transaction: on SQLite it would hold up
        the keeper, and be killed for that."""
        for _ in range(HANG_TRIES):
            self.signal(member, signal.SIGSTOP)
            try:
                keeper = open_keeper(self._keeper_url, home=self.home, clock=time.time, patience_s=HANG_S)
                try:
                    keeper.event("hangs", member.node, incarnation=member.incarnation)
                finally:
                    keeper.close()
                return
            except KeeperUnavailable:
                self.signal(member, signal.SIGCONT)
                time.sleep(HANG_S)
        raise AssertionError(f"{member.node} was in a transaction each of {HANG_TRIES} times")

    def stopped(self, pid: int) -> bool:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED

    # -- what is on record -------------------------------------------------------------------------------

    @property
    def home(self) -> Home:
        return open_home(self.root)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        keeper = open_keeper(self._keeper_url, home=self.home, clock=time.time, patience_s=PATIENCE_S)
        try:
            yield keeper
        finally:
            keeper.close()

    def head(self, stream: str) -> int:
        with self.keeper() as keeper:
            return keeper.head(stream)

    def epochs(self, stream: str) -> list[Epoch]:
        with self.keeper() as keeper:
            return keeper.epochs(stream, after=0)

    def events(self, *kinds: str) -> list[Event]:
        with self.keeper() as keeper:
            return keeper.events(kinds=kinds)

    def marks(self) -> set[str]:
        """The planned faults that happened."""
        return {mark.name.replace("-", ":") for mark in self._marks.iterdir()}

    def rows(self, stream: str) -> list[Row]:
        """All rows of a stream in their canonical order, every segment verified."""
        found: list[Row] = []
        for batch in read_batches(self.home, self.epochs(stream)):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return found

    def counted(self, stream: str) -> Counter[Row]:
        return Counter(self.rows(stream))

    def final(self, stream: str, keys: int) -> dict[Row, Row]:
        """The last row of each key, which are the first ``keys`` columns: what an update stream comes to."""
        return {row[:keys]: row[keys:] for row in self.rows(stream)}

    def delivered(self, sink: str) -> list[dict[str, Any]]:
        """What a sink of JSON files holds, epoch after epoch."""
        folders = sorted((self.folder / "out" / sink).glob("epoch=*"))
        lines = [
            line for folder in folders for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()
        ]
        return [json.loads(line) for line in lines]

    def story(self) -> str:
        """What happened, for whoever reads a failed test."""
        lines = [f"{e.at_s:.3f} {e.kind} {e.subject} {dict(e.detail)}" for e in self.events()[-80:]]
        for log in sorted(self.home.logs.iterdir())[-2:]:
            lines += ["", f"-- {log.name}", *log.read_text(errors="replace").splitlines()[-30:]]
        return "\n".join(lines)
