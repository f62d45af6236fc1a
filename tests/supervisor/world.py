"""A home, a keeper on SQLite, and a supervisor of fake nodes."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rekindle.home import Home, create_or_open
from rekindle.keeper import open_keeper
from rekindle.keeper.records import Event, Member, Position
from rekindle.pipeline import Pipeline, Settings
from rekindle.sources.base import Reader, Source
from rekindle.supervisor.processes import Processes, start_ticks
from rekindle.supervisor.supervise import Supervisor

FAKE_NODE = Path(__file__).with_name("fake_node.py")
HANG_TRIES = 20
HANG_S = 0.5
SETTINGS = Settings(heartbeat_s=0.05, lease_s=2.0, start_s=30.0, zombie_s=600.0, restarts_max=3)


class Nothing(Source):
    """A source that is never read."""

    def schema(self, spark: Any) -> Any:
        raise NotImplementedError

    def open(self, history: Iterable[Position]) -> Reader:
        raise NotImplementedError

    def describe(self) -> str:
        return "nothing"


class World:
    def __init__(self, root: Path, nodes: tuple[str, ...] = ("a",), settings: Settings = SETTINGS) -> None:
        self.control = root / "control"
        self.control.mkdir(exist_ok=True)
        self.pipeline = Pipeline("test", settings=settings)
        for node in nodes:
            self.pipeline.source(f"source_{node}", Nothing(), node=node)
        self.home: Home = create_or_open(root / "home", "test", None)
        self.keeper = open_keeper(None, home=self.home, clock=time.time, patience_s=10)
        self.command = [sys.executable, str(FAKE_NODE), str(self.control), "--home", str(self.home.root)]
        self.supervisors: list[Supervisor] = []

    def supervisor(self, **changes: Any) -> Supervisor:
        options: dict[str, Any] = {"code": "v1", **changes}
        keeper = options.pop("keeper", self.keeper)
        supervisor = Supervisor(self.home, keeper, self.pipeline, self.command, **options)
        self.supervisors.append(supervisor)
        return supervisor

    def close(self) -> None:
        processes = Processes(self.home.id)
        for incarnation in processes.incarnations():
            processes.kill(incarnation, None)
        processes.close()
        for supervisor in self.supervisors:
            supervisor.close()
        self.keeper.close()

    # -- telling nodes, and asking ------------------------------------------------------------------

    def tell(self, node: str, what: str, content: str = "") -> Path:
        path = self.control / f"{node}.{what}"
        path.write_text(content)
        return path

    def member(self, node: str = "a") -> Member:
        """The newest live incarnation of a node."""
        return [member for member in self.keeper.members() if member.node == node][-1]

    def hang(self, member: Member) -> None:
        """Stop a node's process at a moment when it does not hold the keeper's database."""
        for _ in range(HANG_TRIES):
            os.kill(member.pid, signal.SIGSTOP)
            with closing(sqlite3.connect(self.home.keeper_file, timeout=HANG_S, isolation_level=None)) as database:
                try:
                    database.execute("BEGIN IMMEDIATE")
                    database.execute("ROLLBACK")
                    return
                except sqlite3.OperationalError:
                    os.kill(member.pid, signal.SIGCONT)
        pytest.fail(f"{member.node} was in a transaction each of {HANG_TRIES} times")

    def beating(self, node: str = "a", but: int = 0) -> Member | None:
        """The live incarnation of a node, if it beats and is not ``but``."""
        live = [m for m in self.keeper.members() if m.node == node and m.beats > 1 and m.incarnation != but]
        return live[-1] if live else None

    def saw(self, member: Member) -> set[int]:
        return {int(n) for n in (self.control / f"{member.node}-{member.incarnation}.saw").read_text().split()}

    def child(self, member: Member) -> int:
        return int((self.control / f"{member.node}-{member.incarnation}.child").read_text())

    def events(self, *kinds: str) -> list[Event]:
        return self.keeper.events(kinds=kinds)

    def chain(self, node: str = "a") -> list[str]:
        return [event.kind for event in self.events() if event.subject == node]


def until(supervisor: Supervisor | None, condition: Callable[[], Any], what: str, limit_s: float = 30.0) -> Any:
    """Step the supervisor until the condition holds; returns its value."""
    deadline_s = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline_s:
            pytest.fail(f"never: {what}")
        if supervisor is None:
            time.sleep(0.01)
        else:
            supervisor.step(0.05)


def alive(pid: int) -> bool:
    return start_ticks(pid) is not None
