"""CPU seconds and memory of all processes of a peer, by looking at them again and again."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress

import psutil

EVERY_S = 0.5


class Usage:
    """Used as a context. A process that ends between two looks loses what it did since the last one."""

    def __init__(self, processes: Callable[[], list[psutil.Process]]) -> None:
        self.at_s: list[float] = []
        self.cpu_s: list[float] = []
        self.memory_bytes: list[int] = []
        self._processes = processes
        self._by_process: dict[tuple[int, float], float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def __enter__(self) -> Usage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def look(self) -> None:
        memory = 0
        for process in self._processes():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                times = process.cpu_times()
                self._by_process[process.pid, process.create_time()] = times.user + times.system
                memory += process.memory_info().rss
        self.at_s.append(time.time())
        self.cpu_s.append(sum(self._by_process.values()))
        self.memory_bytes.append(memory)

    def cpu_between(self, since_s: float, until_s: float) -> float:
        """CPU seconds, in a stretch of time."""
        return interpolated(self.at_s, self.cpu_s, until_s) - interpolated(self.at_s, self.cpu_s, since_s)

    @property
    def peak_bytes(self) -> int:
        return max(self.memory_bytes, default=0)

    def _run(self) -> None:
        while not self._ending.wait(EVERY_S):
            self.look()


def interpolated(at: list[float], values: list[float], when: float) -> float:
    """The value of a line through points, flat before the first and after the last.

    >>> interpolated([0.0, 10.0], [0.0, 5.0], 4.0)
    2.0
    """
    if not at:
        return 0.0
    index = bisect_left(at, when)
    if index == 0:
        return values[0]
    if index == len(at):
        return values[-1]
    share = (when - at[index - 1]) / (at[index] - at[index - 1])
    return values[index - 1] + share * (values[index] - values[index - 1])
