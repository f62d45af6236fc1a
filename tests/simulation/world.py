"""One schedule: a pipeline, nodes and a supervisor that run the real code, faults, and a judge. All from one seed."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from rekindle.errors import Fenced, KeeperUnavailable
from rekindle.home import Home
from rekindle.keeper.keeper import Keeper
from rekindle.node.stateful import replica, roots
from rekindle.node.worker import WAITING
from rekindle.sinks.base import Delivery
from rekindle.supervisor.supervise import Supervisor
from tests.simulation import stage
from tests.simulation.books import Books, Change, open_books
from tests.simulation.clockwork import Loop, Process, Task
from tests.simulation.faults import Faults
from tests.simulation.hosts import Machine, NodeProcess, ShelfStore
from tests.simulation.judge import Judge, Violation
from tests.simulation.paper import Session, read_rows
from tests.simulation.zoo import specimen

FINISH_S = 120.0
RETRY_S = 0.05
SUPERVISOR_PATIENCE_S = 5.0


class SupervisorProcess(Process):
    cut = ""
    patience_s = SUPERVISOR_PATIENCE_S


class Watch:
    """In place of the keeper's watch: wakes who waits when a transaction has announced something."""

    def __init__(self) -> None:
        self.sleepers: list[Task] = []
        self.token = 0

    def wait(self, seen: int, timeout_s: float) -> int:
        world = stage.now_playing()
        loop = world.loop
        if world.is_cut() or self.token <= seen:
            self.sleepers.append(loop.current)
            loop.block(timeout_s)
            if loop.current in self.sleepers:
                self.sleepers.remove(loop.current)
        else:
            loop.give_way()
        return seen if world.is_cut() else max(seen, self.token)

    def changed(self, token: int) -> None:
        if token != self.token:
            self.token = token
            sleepers, self.sleepers = self.sleepers, []
            stage.now_playing().loop.wake(sleepers)

    def nudge(self) -> None:
        """The transaction told already."""

    def close(self) -> None:
        """Nothing is held."""


class Stage:
    """What outlives a schedule."""

    def __init__(self) -> None:
        stage.set_the_stage()
        self.watch = Watch()
        self.keeper, self.books = open_books(stage.TIME.time, self.watch)
        self.books.changed = self.watch.changed
        shared = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-", dir=shared if os.access(shared, os.W_OK) else None))
        self._number = 0
        gc.collect()
        gc.freeze()  # what is there now stays: the collector need not look at it again and again
        gc.set_threshold(20_000, 20, 50)

    def play(self, seed: int, story: Callable[[str], None] | None = None) -> World:
        """Run one schedule to its end. ``failure`` of the answer says what went wrong."""
        self._number += 1
        root = self.folder / f"{self._number}"
        world = World(seed, root, self.keeper, self.books, self.watch, story)
        stage.Playing.world = world
        try:
            world.play()
        finally:
            world.loop.unwind()
            self.books.network = None
            shutil.rmtree(root, ignore_errors=True)
        return world

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class World:
    def __init__(
        self,
        seed: int,
        root: Path,
        keeper: Keeper,
        books: Books,
        watch: Watch,
        story: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop: Loop = Loop(Random(self.random.random()))
        self.faults = Faults(Random(self.random.random()))
        self.happened: dict[str, int] = {}
        self._story = story
        self.home = Home(root, "simulation", "home", "sqlite")
        for folder in (self.home.streams, self.home.work, self.home.logs):
            folder.mkdir(parents=True)
        self.keeper, self.books = keeper, books
        books.start_anew()
        keeper._line._owners.clear()
        watch.token, watch.sleepers = 0, []
        books.network = self
        books.watch = self._see
        self.specimen = specimen(Random(self.random.random()), lambda: self.loop.now_s, self._take)
        self.machine = Machine(self.loop, self.tell)
        self.stores: dict[str, ShelfStore] = {}
        self.judge = Judge(self.specimen, root, self.stores, lambda: self.loop.now_s, self._in_hand, self.happened)
        self.supervisor: SupervisorProcess | None = None
        self._ending: SupervisorProcess | None = None

    @property
    def failure(self) -> BaseException | None:
        return self.loop.failure

    # -- what the code under test asks of the world --------------------------------------------------

    def session(self) -> Any:
        self.loop.sleep(self.loop.random.uniform(0.1, 0.8) * self.loop.current.process.slow)
        return Session(stage.THREADS, self.point, stage.Jvm())

    def store(self, url: str) -> ShelfStore:
        name = Path(url).name
        if name not in self.stores:
            self.stores[name] = ShelfStore(name, lambda what: self.point(f"{what} {name}"), self._removes)
        return self.stores[name]

    def point(self, what: str) -> None:
        """Between two steps of whoever runs: others may run, and something may happen to him."""
        loop = self.loop
        running = loop.current.process
        if running.slow > 1.0:
            loop.sleep(0.02 * running.slow)
        else:
            loop.give_way()
        if isinstance(running, NodeProcess):
            happens = self.faults.at_step()
            if happens == "crash":
                self.count("crash_at_step", f"{running} at {what}")
                self.machine.end(running, -9)
            elif happens == "pause":
                self.pause(running, what, "pause_at_step")
                loop.give_way()

    def request(self) -> None:
        loop = self.loop
        running: Any = loop.current.process
        if running is loop.outside:
            return
        self.point("request")
        late_s = self.faults.late_s()
        if late_s:
            self.count("late", f"{running} by {late_s:.1f} s")
            loop.sleep(late_s)
        self._while_cut(running, "requests")

    def answer(self) -> bool:
        loop = self.loop
        running: Any = loop.current.process
        if running is loop.outside:
            return True
        self.point("answer")
        if running.cut in ("answers", "both"):
            self._while_cut(running, "answers")
            return False
        if self.faults.loses_answer():
            self.count("lost_answer", f"{running}")
            loop.sleep(RETRY_S)
            return False
        return True

    def is_cut(self) -> bool:
        return bool(getattr(self.loop.current.process, "cut", ""))

    def _while_cut(self, running: Any, way: str) -> None:
        since_s = self.loop.now_s
        while running.cut in (way, "both"):
            if self.loop.now_s - since_s > running.patience_s:
                raise KeeperUnavailable("the keeper did not answer")
            self.loop.sleep(RETRY_S * 4)

    def _removes(self, store: str, name: str) -> None:
        try:
            self.judge.removes(store, name)
        except Violation as broken:
            self.loop.fail(broken)

    def _take(self, delivery: Delivery) -> None:
        self.point(f"sink {delivery.sink}")
        try:
            self.judge.take(delivery.sink, delivery.stream, delivery.epoch, read_rows(delivery.segments))
        except Violation as broken:
            self.loop.fail(broken)
        self.point(f"sink {delivery.sink}")

    # -- watching ------------------------------------------------------------------------------------

    def _see(self, changes: list[Change]) -> None:
        if self._story is not None:
            for table, what, before, after in changes:
                self.tell(_told(table, what, after or before or {}))
        try:
            self.judge.see(changes)
        except Violation as broken:
            self.loop.fail(broken)

    def judge_death(self, error: BaseException) -> None:
        """A node may end itself because it was fenced, and for nothing else."""
        if not isinstance(error, Fenced):
            self.loop.fail(error)

    def _in_hand(self, name: str) -> list[int]:
        """The epochs that live replicas of a fragment compute next."""
        found = []
        for running in self.machine.alive():
            workers = running.runs._workers if running.runs is not None else []
            fit = self.judge.states.get(running.incarnation) in ("starting", "running")
            found += [
                int(w.epoch)
                for w in workers
                if fit and w.subject == name and w.role != WAITING and w.epoch and not w.failed
            ]
        return found

    def tell(self, what: str) -> None:
        if self._story is not None:
            told = what.replace(str(self.home.root), "home")
            self._story(f"{self.loop.now_s - 1000:9.3f}  {self.loop.current.process!s:14}  {told}")

    def count(self, kind: str, what: str) -> None:
        self.happened[kind] = self.happened.get(kind, 0) + 1
        self.tell(f"FAULT {kind}: {what}")

    # -- the schedule --------------------------------------------------------------------------------

    def play(self) -> None:
        try:
            self.tell(self.specimen.described)
            self.start_supervisor()
            self._trouble()
            self._heal()
            self._finish()
            self.judge.check_the_end()
        except Violation as broken:
            self.loop.fail(broken)
        except Exception as error:
            if self.failure is None:
                self.loop.fail(error)

    def start_supervisor(self) -> None:
        started = SupervisorProcess("supervisor")
        self.supervisor = started

        def main() -> None:
            supervisor = Supervisor(
                self.home,
                self.keeper,
                self.specimen.pipeline,
                ["node"],
                code="v1",
                clock=stage.TIME.monotonic,
                host=stage.HOST,
            )
            while self._ending is not started:
                supervisor.step(0.5)
            supervisor.drain(5.0)
            supervisor.close()
            self.supervisor = None

        self.loop.spawn(started, "supervisor", main)

    def _sleep(self, seconds: float) -> None:
        self.loop.sleep(seconds)
        if self.failure is not None:
            raise self.failure

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        def main() -> None:
            self.loop.sleep(seconds)
            act()

        self.loop.spawn(self.loop.outside, "later", main)

    def _trouble(self) -> None:
        end_s = self.loop.now_s + self.faults.until_s
        while self.loop.now_s < end_s:
            self._sleep(self.faults.pause_s())
            kind = self.faults.kind()
            if kind is not None:
                getattr(self, f"_{kind}")()

    def _heal(self) -> None:
        self.tell("from here on all is well")
        self.faults.over = True
        for running in self.machine.alive():
            running.cut, running.slow = "", 1.0
            if not running.hangs:
                self.loop.hold(running, False)
        for store in self.stores.values():
            store.away = False
        if self.supervisor is not None:
            self.supervisor.cut = ""
            self.loop.hold(self.supervisor, False)

    def _finish(self) -> None:
        end_s = self.loop.now_s + FINISH_S
        while True:
            if self.supervisor is None:
                self.start_supervisor()
            lacks = self.judge.lacks()
            if not lacks:
                return
            if self.loop.now_s > end_s:
                failures = [f"{f.subject} {f.epoch}: {f.reason}" for f in self.keeper.failures()]
                raise Violation("progress", f"{FINISH_S:g} s after the last fault {lacks}; failed: {failures}")
            self._sleep(0.5)

    # -- faults --------------------------------------------------------------------------------------

    def _victim(self) -> NodeProcess | None:
        alive = self.machine.alive()
        return self.random.choice(alive) if alive else None

    def _crash(self) -> None:
        victim = self._victim()
        if victim is not None:
            self.count("crash", f"{victim}")
            self.machine.end(victim, -9)

    def pause(self, victim: Process, what: str, kind: str = "pause") -> None:
        length_s = self.faults.length_s()
        self.loop.hold(victim, True)
        if isinstance(victim, NodeProcess) and self.faults.hangs():
            victim.hangs = True
            self.count("hang", f"{victim} {what}")
            return
        self.count(kind, f"{victim} for {length_s:.1f} s {what}")
        self._later(length_s, lambda: self.loop.hold(victim, getattr(victim, "hangs", False)))

    def _pause(self) -> None:
        victim = self._victim()
        if victim is not None:
            self.pause(victim, "")

    def _slow(self) -> None:
        victim = self._victim()
        if victim is not None:
            self.count("slow", f"{victim}")
            victim.slow = self.random.choice([2.0, 8.0])

    def _cut(self) -> None:
        victim: Any = self._victim() if self.random.random() < 0.8 else self.supervisor
        if victim is not None and not victim.cut:
            way, length_s = self.random.choice(["requests", "answers", "both"]), self.faults.length_s()
            self.count("cut", f"{victim} {way} for {length_s:.1f} s")
            victim.cut = way
            self._later(length_s, lambda: setattr(victim, "cut", ""))

    def _clock(self) -> None:
        victim = self._victim()
        if victim is not None:
            victim.clock_s = self.random.uniform(-4.0, 4.0)
            self.count("clock", f"{victim} by {victim.clock_s:.1f} s")

    def _disk_loss(self) -> None:
        self.count("disk_loss", "all nodes")
        for victim in self.machine.alive():
            self.machine.end(victim, -9)
        shutil.rmtree(self.home.work)
        self.home.work.mkdir()

    def _damage(self) -> None:
        """The newest state of a replica that is dead becomes unreadable, in its own folder only."""
        live = {p.incarnation for p in self.machine.alive()}
        for fragment in self.specimen.analysis.fragments:
            for root in sorted(roots(self.home.work / fragment.name), key=replica):
                folder = root / "checkpoint/state/0/0"
                if replica(root)[0] in live or not folder.exists():
                    continue
                newest = max(os.listdir(folder), key=lambda name: int(name.split(".")[0]), default=None)
                if newest is not None:
                    self.count("damage", f"{folder / newest}")
                    (folder / newest).unlink()
                    (folder / newest).write_text("{")

    def _layer(self) -> None:
        """Damage or lose an object in one store, where the fragment's policy keeps another copy."""
        safe = {
            f.name
            for f in self.specimen.analysis.fragments
            if f.recovery.layers is not None and f.recovery.layers.copies > 1
        }
        harmed = {name for store in self.stores.values() for _, name in store.harmed}
        found = [
            (store, name)
            for store in self.stores.values()
            for name in sorted(store.held)
            if name.split("/")[0] in safe and name not in harmed
        ]
        if found:
            store, name = self.random.choice(found)
            self.count("layer", f"{name} in {store.name}")
            for other in self.stores.values():
                other.harmed.add((store.name, name))
            if self.random.random() < 0.5:
                store.held[name] = bytes(len(store.held[name]))
            else:
                del store.held[name]

    def _store(self) -> None:
        if self.stores:
            store = self.random.choice(sorted(self.stores.values(), key=lambda s: s.name))
            length_s = min(3.0, self.faults.length_s())
            self.count("store", f"{store.name} is away for {length_s:.1f} s")
            store.away = True
            self._later(length_s, lambda: setattr(store, "away", False))

    def _supervisor(self) -> None:
        victim = self.supervisor
        if victim is not None and self._ending is not victim:
            self.count("supervisor", "killed")
            self.loop.kill(victim, -9)
            self.supervisor = None
            self._later(self.faults.length_s(), self._supervise_again)

    def _supervise_again(self) -> None:
        if self.supervisor is None:
            self.start_supervisor()

    def _stop(self) -> None:
        victim = self.supervisor
        if victim is not None and self._ending is not victim:
            self.count("stop", "the run ends")
            self._ending = victim


def _told(table: str, what: str, row: Mapping[str, Any]) -> str:
    """One line of the story."""
    if table == "events":
        return f"event {row['kind']} of {row['subject']}: {row['detail'][:600]}"
    left_out = (
        "report",
        "code",
        "host",
        "pid_started",
        "fenced_key",
        "bytes",
        "claimed_at_s",
        "published_at_s",
        "since_s",
        "delivered_at_s",
        "schema",
        "checksum",
        "manifest",
    )
    told = ", ".join(
        f"{name} {value}" for name, value in row.items() if name not in left_out and value not in (None, "")
    )
    return f"{what} {table}: {told[:400]}"
