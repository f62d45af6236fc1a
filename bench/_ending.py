"""Ending what a benchmark started: by process id, in bounded time, also when the benchmark is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from rekindle.home import open_home
from rekindle.supervisor.processes import Processes

END_S = 60.0
BETWEEN_SIGNALS_S = 0.3


def session(leader: int) -> list[psutil.Process]:
    """The processes of a session: a driver, its JVM, Spark's Python daemon and workers."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(pid) == leader:
                found.append(psutil.Process(pid))
    return found


def kill(victims: Iterable[psutil.Process]) -> None:
    for victim in victims:
        with suppress(psutil.NoSuchProcess):
            victim.kill()


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session of its own, and all in it."""
    if process.poll() is None:
        kill(session(process.pid))
        process.wait(END_S)


def end_rekindle(process: subprocess.Popen[bytes], home: Path) -> None:
    """End ``rekindle run`` and its nodes. Two signals: drain, and do not wait for it. Nodes outlive their supervisor
    by design, so those that are left are killed too."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(BETWEEN_SIGNALS_S)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if (home / "home.json").exists():
        processes = Processes(open_home(home).id)
        try:
            for incarnation in processes.incarnations():
                processes.kill(incarnation, None)
        finally:
            processes.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM are ignored inside, which must be in the main thread."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
