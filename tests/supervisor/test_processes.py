"""Real processes: what they leave behind is found and killed, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.keeper.records import Incarnation
from rekindle.supervisor.processes import Processes, Watched, start_ticks

pytestmark = pytest.mark.processes
ONE, TWO = Incarnation(1), Incarnation(2)
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# A node as Spark makes it: a child in a process group of its own, and one that scrubbed its environment.
FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
a = subprocess.Popen(sleep, process_group=0)
b = subprocess.Popen(sleep, env={})
open(sys.argv[1] + ".part", "w").write(f"{a.pid} {b.pid}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def processes() -> Iterator[Processes]:
    several = Processes(f"home{os.getpid()}")
    yield several
    for incarnation in several.incarnations():
        several.kill(incarnation, None)
    several.close()


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline_s:
            pytest.fail(f"never: {what}")
        time.sleep(0.005)


def start(processes: Processes, folder: Path, *command: str, incarnation: Incarnation = ONE) -> Watched:
    return processes.start(incarnation, command, folder / "log", dict(os.environ))


def test_the_end_of_a_child_is_told_with_its_exit_code(processes: Processes, tmp_path: Path) -> None:
    child = start(processes, tmp_path, sys.executable, "-c", "print('bye', flush=True); raise SystemExit(6)")
    processes.wait(20)
    assert child.ended()
    assert child.exit_code() == 6
    assert (tmp_path / "log").read_text() == "bye\n"
    processes.forget(child)


def test_a_signal_is_a_negative_code_and_the_log_grows(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    child = start(processes, tmp_path, *SLEEP)
    assert child.exit_code() is None
    child.signal(signal.SIGKILL)
    processes.wait(20)
    assert child.exit_code() == -9
    child.signal(signal.SIGKILL)  # too late, and no harm
    assert (tmp_path / "log").read_text() == "before\n"
    processes.forget(child)


def test_a_node_is_in_a_session_of_its_own_and_reads_nothing(processes: Processes, tmp_path: Path) -> None:
    code = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()), flush=True)"
    child = start(processes, tmp_path, sys.executable, "-c", code)
    processes.wait(20)
    assert (tmp_path / "log").read_text() == "True ''\n"
    processes.forget(child)


def test_a_stranger_is_adopted_and_its_end_is_told(processes: Processes) -> None:
    stranger = subprocess.Popen(SLEEP)
    ticks = start_ticks(stranger.pid)
    assert ticks is not None
    assert processes.adopt(stranger.pid, ticks + 1) is None  # another process, that had this id once
    adopted = processes.adopt(stranger.pid, ticks)
    assert adopted is not None
    processes.wait(0)
    assert not adopted.ended()
    stranger.kill()
    processes.wait(20)
    assert adopted.ended()
    assert adopted.exit_code() is None
    assert processes.adopt(stranger.pid, ticks) is None  # a corpse
    stranger.wait()
    assert processes.adopt(stranger.pid, ticks) is None  # nothing
    processes.forget(adopted)


def test_what_a_dead_node_leaves_is_found_and_killed(processes: Processes, tmp_path: Path) -> None:
    told = tmp_path / "told"
    leader = start(processes, tmp_path, sys.executable, "-c", FAMILY, str(told))
    other = start(processes, tmp_path, *SLEEP, incarnation=TWO)
    until(told.exists, "the node has its children")
    family = {int(pid) for pid in told.read_text().split()}
    assert set(processes.remains(ONE, leader)) == family | {leader.pid}
    leader.signal(signal.SIGKILL)
    until(leader.ended, "the leader ended")
    assert set(processes.remains(ONE, leader)) == family  # the corpse of the leader still vouches for its session
    assert processes.kill(ONE, leader) == 2

    def nothing_left() -> bool:
        processes.wait(0.1)
        return not processes.remains(ONE, leader)

    until(nothing_left, "the family is gone")
    assert all(start_ticks(pid) is None for pid in family)
    assert not other.ended()
    assert processes.incarnations() == {TWO: [other.pid]}
    processes.forget(leader)
    assert processes.kill(TWO, other) == 1
    until(other.ended, "the other ended")
    processes.forget(other)


def test_another_homes_processes_are_not_ours(processes: Processes, tmp_path: Path) -> None:
    theirs = Processes("elsewhere")
    child = theirs.start(ONE, SLEEP, tmp_path / "log", dict(os.environ))
    assert processes.kill(ONE, None) == 0
    assert processes.incarnations() == {}
    assert not child.ended()
    theirs.kill(ONE, child)
    until(child.ended, "the child ended")
    theirs.forget(child)
    theirs.close()


def test_wake_ends_a_wait(processes: Processes) -> None:
    processes.wake()
    processes.wait(10_000)  # far longer than a test may take


def test_a_command_that_is_not_there(processes: Processes, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no_such"):
        start(processes, tmp_path, "/no_such_command")
