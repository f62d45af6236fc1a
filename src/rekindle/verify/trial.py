"""One run of a pipeline file in a scratch home, as real processes: ``rekindle run`` and its nodes.

It is started like anybody's, watched from outside, and everything of it is ended when the trial is closed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rekindle import clock
from rekindle.errors import KeeperUnavailable, RekindleError
from rekindle.home import Home, open_home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import Epoch, Event, Member
from rekindle.node import prescribed
from rekindle.supervisor.processes import Processes, this_host

LOOK_S = 0.05
IDLE_S = 2.0
START_S = 180.0
PATIENCE_S = 60.0
DRAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial's keeper is: ``direct`` for those who look on, ``of_run`` for the run, which may lie behind a
    proxy. None is SQLite in the home."""

    direct: str | None = None
    of_run: str | None = None


class Trial:
    """Call ``start``, look on, ``close``. ``rest`` is called again and again while anything is waited for."""

    def __init__(
        self,
        folder: Path,
        file: Path,
        *,
        home: Path | None = None,
        place: Place | None = None,
        cores: int | None = None,
        claims: prescribed.Prescribed | None = None,
        steps: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.root = home or folder / "home"
        self.place = place or Place()
        self.file = file
        self.clock_file = folder / "clock"
        self.marks_folder = folder / "steps"
        self.marks_folder.mkdir(exist_ok=True)
        self.runs: list[subprocess.Popen[bytes]] = []
        self.planned = tuple(steps)
        self._rest = rest
        self._cores = cores
        self._witness: Witness | None = None
        self._keeper: Keeper | None = None
        env = {k: v for k, v in os.environ.items() if not k.startswith("REKINDLE_")}
        env[clock.VARIABLE] = str(self.clock_file)
        if claims is not None:
            claims.write(folder / "claims.json")
            env[prescribed.VARIABLE] = str(folder / "claims.json")
        if steps:
            env |= {"REKINDLE_STEPS": ",".join(steps), "REKINDLE_STEPS_DIR": str(self.marks_folder)}
        self._environment = env | dict(environment or {})

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    # -- running -------------------------------------------------------------------------------------

    def start(self, *, forever: bool = False) -> None:
        """Start, or start again on the same home. It ends by itself when nothing is left to do, unless ``forever``."""
        command = [sys.executable, "-m", "rekindle", "run", str(self.file), "--home", str(self.root), "--json"]
        command += [] if forever else ["--until-idle", f"{IDLE_S:g}s"]
        command += [] if self._cores is None else ["--cores", str(self._cores)]
        env = dict(self._environment)
        if self.place.of_run is not None:
            env["REKINDLE_KEEPER"] = self.place.of_run
        with open(self._log(len(self.runs)), "wb") as log:
            run = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
        self.runs.append(run)
        made = self.root / "home.json"
        self.until(lambda: made.exists() or run.poll() is not None, START_S)
        self.until(lambda: self._can_look() or run.poll() is not None, START_S)
        if not self._can_look():
            raise self.failure("'rekindle run' ended at once")
        if self._witness is None:
            self._witness = Witness(self._open)

    @property
    def ended(self) -> int | None:
        """The exit code of the newest run; None while it goes on."""
        return self.runs[-1].poll() if self.runs else None

    def interrupt(self) -> None:
        """Ask the run to drain."""
        if self.ended is None:
            self.runs[-1].send_signal(signal.SIGINT)

    def until(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
        """Wait for a condition; whether it came true in time."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            self._rest()
            time.sleep(LOOK_S)
        return True

    def wait(self, seconds: float) -> None:
        self.until(lambda: False, seconds)

    def close(self) -> None:
        """End everything that was started, by process id. Safe to call again."""
        for run in self.runs:
            if run.poll() is None:
                run.kill()
            run.wait()
        if (self.root / "home.json").exists():
            self.kill_nodes()
        if self._witness is not None:
            self._witness.close()
            self._witness = None
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    # -- processes -----------------------------------------------------------------------------------

    def kill_supervisor(self) -> int:
        """SIGKILL of the supervisor alone; its process id."""
        run = self.runs[-1]
        run.kill()
        run.wait()
        return run.pid

    def kill_nodes(self) -> int:
        """SIGKILL every process of every node; returns how many."""
        killed = 0
        processes = Processes(self.home.id)
        try:
            for incarnation in processes.incarnations():
                killed += processes.kill(incarnation, None)
            deadline_s = time.monotonic() + DRAIN_S
            while processes.incarnations() and time.monotonic() < deadline_s:
                time.sleep(LOOK_S)
        finally:
            processes.close()
        return killed

    def processes_of(self, member: Member) -> list[int]:
        """All processes of an incarnation: the node, its JVM, Spark's Python daemon and workers."""
        processes = Processes(self.home.id)
        try:
            return processes.incarnations().get(member.incarnation, [])
        finally:
            processes.close()

    def ready(self) -> list[Member]:
        """The nodes of this host that are ready, by name."""
        members = [m for m in self.keeper.members() if m.pid and m.host == this_host()]
        return sorted((m for m in members if m.report.get("phase") == "ready"), key=lambda m: m.node)

    # -- what is on record ---------------------------------------------------------------------------

    @property
    def home(self) -> Home:
        return open_home(self.root)

    @property
    def keeper(self) -> Keeper:
        if self._keeper is None:
            self._keeper = self._open()
        return self._keeper

    def heads(self) -> dict[str, int]:
        """The newest epoch of each stream; empty while the keeper is not made, or does not answer."""
        try:
            if not self._can_look():
                return {}
            return {stream: int(epoch.epoch) for stream, epoch in self.keeper.heads().items()}
        except KeeperUnavailable:
            return {}

    def streams(self) -> set[str]:
        """The streams that are published; empty while the keeper is not made, or does not answer."""
        try:
            return set(self.keeper.streams()) if self._can_look() else set()
        except KeeperUnavailable:
            return set()

    def epochs(self, stream: str) -> list[Epoch]:
        return self.keeper.epochs(stream, after=0)

    def events(self, *kinds: str) -> list[Event]:
        return self.keeper.events(kinds=kinds)

    def marks(self) -> set[str]:
        """The planned steps that were reached."""
        return {mark.name.replace("-", ":") for mark in self.marks_folder.iterdir()}

    def witnessed(self) -> Witness:
        if self._witness is None:
            raise RekindleError("nothing was witnessed yet")
        return self._witness

    def summary(self) -> dict[str, Any]:
        """What the newest run said at its end; empty if it said nothing."""
        text = self._log(len(self.runs) - 1).read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found

    def failure(self, primary: str) -> RekindleError:
        """An error that shows what the run said last."""
        summary = self.summary() if self.runs else {}
        if "error" in summary:
            error = summary["error"]
            return RekindleError(error["primary"], detail=error["detail"], hint=error["hint"])
        tail = self._log(len(self.runs) - 1).read_text(errors="replace").splitlines()[-15:]
        return RekindleError(primary, detail="\n".join(tail), hint="--keep DIR keeps the scratch homes and their logs")

    def _log(self, number: int) -> Path:
        return self.folder / f"run-{number}.log"

    def _can_look(self) -> bool:
        if not (self.root / "home.json").exists():
            return False
        try:
            return self.keeper is not None
        except RekindleError:
            return False

    def _open(self) -> Keeper:
        if self.place.direct is None and not self.home.keeper_file.exists():
            raise RekindleError("the keeper is not made yet")
        return open_keeper(self.place.direct, home=self.home, clock=time.time, patience_s=5.0)


@dataclass(frozen=True, slots=True)
class Seen:
    epoch: Epoch
    at_s: float


class Witness:
    """Sees every epoch as it is published, from a thread of its own, and tells what was changed afterwards."""

    def __init__(self, open_keeper: Callable[[], Keeper]) -> None:
        self._open = open_keeper
        self._over = threading.Event()
        self.seen: dict[tuple[str, int], Seen] = {}
        self._thread = threading.Thread(target=self._look, name="witness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def changed(self, keeper: Keeper) -> list[tuple[Seen, Epoch | None]]:
        """The epochs that are not as they were when they were seen first, and what they are now."""
        now = {seen: keeper.epoch(seen.epoch.stream, seen.epoch.epoch) for seen in list(self.seen.values())}
        return [(seen, found) for seen, found in now.items() if found != seen.epoch]

    def _look(self) -> None:
        heads: dict[str, int] = {}
        keeper: Keeper | None = None
        while not self._over.wait(LOOK_S):
            try:
                keeper = keeper or self._open()
                for stream in keeper.streams():
                    for epoch in keeper.epochs(stream, after=heads.get(stream, 0)):
                        self.seen[stream, epoch.epoch] = Seen(epoch, time.time())
                        heads[stream] = epoch.epoch
            except KeeperUnavailable:
                continue  # it looks again: an absent keeper changes nothing
        if keeper is not None:
            keeper.close()
