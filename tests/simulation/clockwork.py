"""Virtual time: the threads of all simulated processes, of which one runs at a time, in an order that a seed decides.

Each virtual thread has an operating system's thread of its own, and a baton goes from one to the next. A thread gives
it away where it waits, and nowhere else; time passes only when nobody can run. What a killed process was doing is left
where it stands, as SIGKILL leaves it; its threads are unwound when the schedule is over.
"""

from __future__ import annotations

import _thread
import heapq
import threading
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

SWITCHES_MAX = 120_000


class Killed(BaseException):
    """Unwinds a thread of a process that is dead, after everything is over."""


class Stuck(Exception):
    """Nothing is left that could happen, or too much has."""


class Process:
    """What a simulated operating system knows of a process. ``held`` is SIGSTOP."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.held = False
        self.exit_code: int | None = None
        self.slow = 1.0
        self.clock_s = 0.0  # how far its clock is off
        self.tasks: list[Task] = []

    def __repr__(self) -> str:
        return self.name


class Task:
    """One virtual thread."""

    def __init__(self, process: Process, name: str, act: Callable[[], Any]) -> None:
        self.process = process
        self.name = name
        self.act = act
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.token = 0  # which of its waits it is in
        self.waits = False
        self.done = False
        self.begun = False
        self.waiters: list[Task] = []


class Hand:
    """A thread of the operating system, which does one job after the other."""

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._job: Callable[[Hand], None] | None = None
        threading.Thread(target=self._main, daemon=True).start()

    def give(self, job: Callable[[Hand], None]) -> None:
        self._job = job
        self._lock.release()

    def _main(self) -> None:
        while True:
            self._lock.acquire()
            job, self._job = self._job, None
            if job is not None:
                job(self)


IDLE: list[Hand] = []
"""Hands that have nothing to do. One says so before it gives the baton away, since from then on others run."""


class Loop:
    """``main`` is the task of whoever makes the loop. Call ``unwind`` at the end."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now_s = 1000.0
        self.switches = 0
        self.outside = Process("outside")
        self.main = Task(self.outside, "main", lambda: None)
        self.main.begun = True
        self.current = self.main
        self.failure: BaseException | None = None
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Task, int]] = []
        self._number = 0
        self._tasks: list[Task] = []
        self._unwinding = False

    # -- threads -------------------------------------------------------------------------------------

    def spawn(self, process: Process, name: str, act: Callable[[], Any]) -> Task:
        task = Task(process, name, act)
        self._tasks.append(task)
        process.tasks.append(task)
        self._ready.append(task)
        return task

    def kill(self, process: Process, exit_code: int) -> None:
        """Nothing of the process happens any more. Does not return if it is the caller's own."""
        if process.dead:
            return
        process.dead, process.exit_code = True, exit_code
        self._ready = [task for task in self._ready if task.process is not process]
        if self.current.process is process:
            self._switch()

    def hold(self, process: Process, held: bool) -> None:
        process.held = held

    def fail(self, failure: BaseException) -> None:
        """The schedule is over; the first failure counts."""
        if self.failure is None:
            self.failure = failure

    # -- waiting -------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        self.block(max(0.0, seconds))

    def give_way(self) -> None:
        """Let others run before this thread goes on, or not."""
        self._check()
        self._ready.append(self.current)
        self._switch()

    def block(self, timeout_s: float | None) -> None:
        """Until somebody wakes this thread, or the time has passed."""
        self._check()
        task = self.current
        task.token += 1
        task.waits = True
        if timeout_s is not None:
            self._number += 1
            heapq.heappush(self._timers, (self.now_s + timeout_s, self._number, task, task.token))
        self._switch()

    def wake(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            if task.waits and not task.process.dead:
                task.waits = False
                self._ready.append(task)

    def _check(self) -> None:
        if self._unwinding or self.current.process.dead:
            raise Killed

    def _switch(self) -> None:
        """Give the baton to the next; returns when it comes back."""
        me = self.current
        following = self._next()
        if following is not me:
            self._hand_to(following)
            me.baton.acquire()
        self._check()

    def _next(self) -> Task:
        self.switches += 1
        if self.failure is None and self.switches > SWITCHES_MAX:
            self.fail(Stuck(f"after {SWITCHES_MAX} turns, at {self.now_s:.1f} s, it is still not over"))
        if self.failure is not None:
            return self.main
        while True:
            ready = self._ready
            count = len(ready)
            if count:
                index = int(self.random.random() * count) if count > 1 else 0
                if not ready[index].process.held:
                    return ready.pop(index)
                able = [number for number, task in enumerate(ready) if not task.process.held]
                if able:
                    return ready.pop(able[int(self.random.random() * len(able))])
            if not self._timers:
                self.fail(Stuck("nobody waits for anything that will ever come"))
                return self.main
            at_s, _, task, token = heapq.heappop(self._timers)
            if task.waits and task.token == token and not task.process.dead:
                self.now_s = max(self.now_s, at_s)
                task.waits = False
                ready.append(task)

    def _hand_to(self, task: Task) -> None:
        self.current = task
        if task.begun:
            task.baton.release()
        else:
            task.begun = True
            hand = IDLE.pop() if IDLE else Hand()
            hand.give(lambda hand: self._run(task, hand))

    def _run(self, task: Task, hand: Hand) -> None:
        try:
            self._check()
            task.act()
        except Killed:
            pass
        except BaseException as error:
            self.fail(error)
        task.done = True
        IDLE.append(hand)
        if self._unwinding:
            self.current = self.main
            self.main.baton.release()
            return
        self.wake(task.waiters)
        self._hand_to(self._next())

    def unwind(self) -> None:
        """Let go of every thread. To be called by main, when nothing matters any more."""
        self._unwinding = True
        for task in self._tasks:
            if task.begun and not task.done:
                self._hand_to(task)
                self.main.baton.acquire()
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()


class VirtualThreading:
    """What the code under test takes for the module ``threading``."""

    def __init__(self, loop_of: Callable[[], Loop]) -> None:
        class Lock:
            def __init__(self) -> None:
                self._owner: Task | None = None
                self._waiting: list[Task] = []

            def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
                loop = loop_of()
                while self._owner is not None:
                    if not blocking:
                        return False
                    self._waiting.append(loop.current)
                    loop.block(None)
                self._owner = loop.current
                return True

            def release(self) -> None:
                self._owner = None
                waiting, self._waiting = self._waiting, []
                loop_of().wake(waiting)

            def __enter__(self) -> bool:
                return self.acquire()

            def __exit__(self, *_: object) -> None:
                self.release()

        class Condition(Lock):
            def __init__(self) -> None:
                super().__init__()
                self._sleepers: list[Task] = []

            def wait(self, timeout: float | None = None) -> bool:
                loop = loop_of()
                task = loop.current
                self._sleepers.append(task)
                self.release()
                loop.block(timeout)
                told = task not in self._sleepers
                if not told:
                    self._sleepers.remove(task)
                self.acquire()
                return told

            def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
                loop = loop_of()
                end_s = None if timeout is None else loop.now_s + timeout
                result = predicate()
                while not result:
                    if end_s is not None and end_s <= loop.now_s:
                        break
                    self.wait(None if end_s is None else end_s - loop.now_s)
                    result = predicate()
                return result

            def notify_all(self) -> None:
                sleepers, self._sleepers = self._sleepers, []
                loop_of().wake(sleepers)

            notify = notify_all

        class Event:
            def __init__(self) -> None:
                self._set = False
                self._sleepers: list[Task] = []

            def is_set(self) -> bool:
                return self._set

            def set(self) -> None:
                self._set = True
                sleepers, self._sleepers = self._sleepers, []
                loop_of().wake(sleepers)

            def wait(self, timeout: float | None = None) -> bool:
                loop = loop_of()
                if self._set:
                    return True
                if timeout is not None and timeout <= 0:
                    loop.give_way()
                    return self._set
                task = loop.current
                self._sleepers.append(task)
                loop.block(timeout)
                if task in self._sleepers:
                    self._sleepers.remove(task)
                return self._set

        class Thread:
            def __init__(
                self,
                target: Callable[..., Any],
                args: tuple[Any, ...] = (),
                kwargs: Mapping[str, Any] | None = None,
                name: str = "",
                daemon: bool = False,
            ) -> None:
                self._act = lambda: target(*args, **(kwargs or {}))
                self._name = name
                self._task: Task | None = None

            def start(self) -> None:
                loop = loop_of()
                self._task = loop.spawn(loop.current.process, self._name, self._act)

            def is_alive(self) -> bool:
                return self._task is not None and not self._task.done

            def join(self, timeout: float | None = None) -> None:
                loop, task = loop_of(), self._task
                if task is None or task.done:
                    return
                task.waiters.append(loop.current)
                loop.block(timeout)
                if loop.current in task.waiters:
                    task.waiters.remove(loop.current)

        self.Lock = self.RLock = Lock
        self.Condition, self.Event, self.Thread = Condition, Event, Thread
        self.get_ident = lambda: id(loop_of().current)


class VirtualTime:
    """What the code under test takes for the module ``time``. Only the wall clock can be wrong."""

    def __init__(self, loop_of: Callable[[], Loop]) -> None:
        self._loop_of = loop_of

    def monotonic(self) -> float:
        return self._loop_of().now_s

    perf_counter = monotonic

    def time(self) -> float:
        loop = self._loop_of()
        return loop.now_s + loop.current.process.clock_s

    def sleep(self, seconds: float) -> None:
        self._loop_of().sleep(seconds)
