from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from rekindle.cli import stop
from rekindle.cli.opened import _holders, supervisor_pid
from rekindle.cli.stop import Stopping, terminate
from rekindle.errors import RekindleError
from rekindle.supervisor.processes import start_ticks, this_host
from tests.cli.conftest import Rekindle, Ward

HOLDER = (
    "import sys, time\nfrom pathlib import Path\nfrom rekindle.home import HomeLock, open_home\n"
    "lock = HomeLock(open_home(Path(sys.argv[1])))\nprint('held', flush=True)\ntime.sleep(600)"
)


def test_nothing_runs(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.leave(ward.node)
    answer = rekindle("stop", "--home", ward.home.root)
    assert (answer.code, answer.out) == (0, "nothing runs on this home\n")


def test_a_node_is_asked_and_waited_for(ward: Ward) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=os.getpid(), pid_started=start_ticks(os.getpid()) or 0)
    wants: list[str] = []

    def sleep(_: float) -> None:
        wants.append(ward.keeper.beat(ward.node, {}))
        if len(wants) == 3:
            ward.keeper.leave(ward.node)

    told: list[str] = []
    ticks = count()
    stopping = Stopping(ward.home, ward.keeper, sleep=sleep, monotonic=lambda: float(next(ticks)))
    assert stopping.run(60, tell=told.append) == ["main"]
    assert wants == ["drain"] * 3
    assert len(told) == 1 and told[0].startswith("waiting for main")


def test_a_node_that_stays_is_named(ward: Ward) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=os.getpid(), pid_started=start_ticks(os.getpid()) or 0)
    ticks = count(step=10)
    stopping = Stopping(ward.home, ward.keeper, sleep=lambda _: None, monotonic=lambda: float(next(ticks)))
    with pytest.raises(RekindleError, match="not everything ended") as late:
        stopping.run(60, tell=lambda _: None)
    assert f"main (incarnation {ward.node}, process {os.getpid()})" in late.value.detail
    assert [member.state for member in ward.keeper.members()] == ["starting"], "nothing was fenced or killed"


def test_a_node_whose_process_is_gone_is_not_waited_for(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=os.getpid(), pid_started=1)
    answer = rekindle("stop", "--json", "--home", ward.home.root)
    assert answer.json == {"stopped": ["main"]}
    assert ward.keeper.members() == []


def test_a_supervisor_is_asked_to_end(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.leave(ward.node)
    command = [sys.executable, "-c", HOLDER, str(ward.home.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_env()) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert supervisor_pid(ward.home) == holder.pid
        answer = rekindle("stop", "--home", ward.home.root)
        assert answer.code == 0
        assert holder.wait(10) == -signal.SIGTERM


def test_only_the_holder_of_the_home_is_asked(ward: Ward) -> None:
    """The id in the lock file may by now belong to anybody: here, to the test itself."""
    (ward.home.root / "supervisor.lock").write_text(f"{os.getpid()}\n")
    assert supervisor_pid(ward.home) is None
    assert terminate(ward.home, os.getpid()) is False


def test_a_lock_that_another_holds_is_not_the_supervisors_of_the_file(ward: Ward) -> None:
    """As where a file of another disk has the same inode number, and the id in the lock file is of an earlier run."""
    path = ward.home.root / "supervisor.lock"
    path.write_text("1\n")
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert supervisor_pid(ward.home) is None
        path.write_text(f"{os.getpid()}\n")
        assert supervisor_pid(ward.home) == os.getpid()


def test_who_waits_for_a_lock_does_not_hold_it() -> None:
    locks = [
        "1: FLOCK  ADVISORY  WRITE 286 fe:00:99 0 EOF",
        "1: -> FLOCK  ADVISORY  WRITE 287 fe:00:99 0 EOF",
        "2: POSIX  ADVISORY  WRITE 288 fe:00:99 0 EOF",
        "3: FLOCK  ADVISORY  WRITE 289 fe:00:199 0 EOF",
    ]
    assert _holders(locks, 99) == {"286"}


@pytest.mark.parametrize("timeout", ["soon", "30", "0s"])
def test_a_bad_timeout_is_refused(rekindle: Rekindle, ward: Ward, timeout: str) -> None:
    answer = rekindle("stop", "--timeout", timeout, "--home", ward.home.root)
    assert answer.code == 2
    assert "--timeout" in answer.err


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(stop.__file__).parents[2])}
