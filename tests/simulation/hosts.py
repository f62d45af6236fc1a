"""The machine: processes of nodes, as a supervisor sees them, and the stores for layers."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rekindle.errors import RekindleError
from rekindle.keeper.records import Incarnation
from rekindle.node import process
from rekindle.state.stores import StoreFailed
from tests.simulation.clockwork import Killed, Loop, Process, Task


class NodeProcess(Process):
    def __init__(self, pid: int, node: str, incarnation: Incarnation) -> None:
        super().__init__(f"{node}-{incarnation}")
        self.pid = pid
        self.node = node
        self.incarnation = incarnation
        self.runs: process.Node | None = None
        self.patience_s = process.PATIENCE_S
        self.hangs = False  # held for good
        self.cut = ""  # what does not get through: requests, answers, both


class Machine:
    """Every process there ever was."""

    def __init__(self, loop: Loop, tell: Callable[[str], None]) -> None:
        self.loop = loop
        self.all: dict[int, NodeProcess] = {}
        self._tell = tell
        self._watchers: list[Task] = []

    def alive(self) -> list[NodeProcess]:
        return [p for p in self.all.values() if not p.dead]

    def of(self, incarnation: int) -> NodeProcess | None:
        return next((p for p in self.alive() if p.incarnation == incarnation), None)

    def start(self, node: str, incarnation: Incarnation) -> NodeProcess:
        started = NodeProcess(1000 + len(self.all), node, incarnation)
        self.all[started.pid] = started
        options = Namespace(file=Path("p.py"), home=Path("home"), node=node, incarnation=incarnation, cores=1)

        def main() -> None:
            try:
                started.runs = process.Node(options)
                code = started.runs.run()
            except RekindleError as error:
                code = error.exit_code
            except Killed:
                raise
            except Exception as error:
                self._tell(f"node ends: {type(error).__name__}: {error}")
                self.loop.fail(error)
                code = 1
            self.end(started, code)

        self.loop.spawn(started, "main", main)
        return started

    def end(self, ended: Process, code: int) -> None:
        """The end of a process; does not return if it is the caller's own."""
        if not ended.dead:
            self._tell(f"{ended} ends with {code}")
            watchers, self._watchers = self._watchers, []
            self.loop.wake(watchers)
            self.loop.kill(ended, code)

    def wait(self, timeout_s: float) -> None:
        self._watchers.append(self.loop.current)
        self.loop.block(timeout_s)
        if self.loop.current in self._watchers:
            self._watchers.remove(self.loop.current)


class Watched:
    """In place of supervisor.processes.Watched."""

    def __init__(self, machine: Machine, watched: NodeProcess, *, child: bool) -> None:
        self._machine, self._watched, self._child = machine, watched, child
        self.pid = watched.pid
        self.pid_started = watched.pid

    def ended(self) -> bool:
        return self._watched.dead

    def exit_code(self) -> int | None:
        return self._watched.exit_code if self._child else None

    def stopped(self) -> bool:
        return self._watched.held and not self._watched.dead

    def signal(self, number: int) -> None:
        if number == signal.SIGTERM and self._watched.runs is not None and not self._watched.dead:
            self._watched.runs._stopping.set()

    def close(self) -> None:
        """Nothing is held."""


class Processes:
    """In place of supervisor.processes.Processes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def start(self, incarnation: Incarnation, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Watched:
        node = command[command.index("--node") + 1]
        return Watched(self._machine, self._machine.start(node, incarnation), child=True)

    def adopt(self, pid: int, pid_started: int) -> Watched | None:
        found = self._machine.all.get(pid)
        return Watched(self._machine, found, child=False) if found is not None and not found.dead else None

    def forget(self, watched: Watched) -> None:
        """Nothing is held."""

    def wait(self, timeout_s: float) -> None:
        self._machine.wait(timeout_s)

    def wake(self) -> None:
        """Nobody sends signals here."""

    def close(self) -> None:
        """Nothing is held."""

    def remains(self, incarnation: Incarnation, leader: Any) -> list[int]:
        found = self._machine.of(incarnation)
        return [found.pid] if found is not None else []

    def incarnations(self) -> dict[Incarnation, list[int]]:
        return {p.incarnation: [p.pid] for p in self._machine.alive()}

    def leads(self, pid: int) -> bool:
        return True

    def kill(self, incarnation: Incarnation, leader: Any) -> int:
        found = self._machine.of(incarnation)
        if found is None:
            return 0
        self._machine.end(found, -9)
        return 1


class ShelfStore:
    """A store for layers, of the simulated world. ``harmed`` are the objects that its disk damaged by itself."""

    def __init__(self, name: str, at: Callable[[str], None], removes: Callable[[str, str], None]) -> None:
        self.name = name
        self._removes = removes
        self.held: dict[str, bytes] = {}
        self.harmed: set[tuple[str, str]] = set()
        self.away = False
        self._at = at

    def _ask(self, what: str) -> None:
        self._at(what)
        if self.away:
            raise StoreFailed(self.name, "away")

    def prepare(self) -> None:
        self._ask("prepare")

    def put(self, name: str, chunks: Iterable[bytes], size: int) -> None:
        self._ask("put")
        content = b"".join(chunks)
        self._ask("put")
        self.held[name] = content

    def settle(self, folder: str) -> None:
        self._ask("settle")

    def size(self, name: str) -> int | None:
        self._ask("size")
        return len(self.held[name]) if name in self.held else None

    def read(self, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> Generator[bytes, None, None]:
        self._ask("read")
        if name not in self.held:
            raise StoreFailed(self.name, f"{name} is not there")
        content = self.held[name]
        if ranges is None:
            yield content
        else:
            yield from (content[start : start + size] for start, size in ranges)

    def sizes(self, folder: str) -> dict[str, int]:
        self._ask("sizes")
        return {name: len(self.held[name]) for name in sorted(self.held) if name.startswith(f"{folder}/")}

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._ask("remove")
            self._removes(self.name, name)
            self.held.pop(name, None)
