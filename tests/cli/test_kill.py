from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil
import pytest

from rekindle.supervisor.processes import MARK, start_ticks, this_host
from tests.cli.conftest import Rekindle, Ward

PROGRAM = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "child.wait()"
)


@dataclass(frozen=True)
class Stand:
    """A process that stands for a node, and a child of it."""

    process: subprocess.Popen[str]
    child: psutil.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def pid_started(self) -> int:
        return start_ticks(self.pid) or 0


@pytest.fixture
def node(ward: Ward) -> Iterator[Stand]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, MARK: f"{ward.home.id}/{ward.node}"},
    )
    assert process.stdout is not None
    with process:
        stand = Stand(process, psutil.Process(int(process.stdout.readline())))
        yield stand
        with suppress(psutil.NoSuchProcess):
            stand.child.kill()
        process.kill()


def test_kills_the_node_and_what_it_started(rekindle: Rekindle, ward: Ward, node: Stand) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=node.pid, pid_started=node.pid_started)
    before_s = time.time()
    answer = rekindle("kill", "main", "--json", "--home", ward.home.root)
    assert answer.code == 0
    assert answer.json == {"node": "main", "incarnation": ward.node, "pid": node.pid, "processes": 2}
    assert node.process.wait(10) == -signal.SIGKILL
    psutil.wait_procs([node.child], timeout=10)
    assert not node.child.is_running() or node.child.status() == psutil.STATUS_ZOMBIE
    event = ward.keeper.events()[-1]
    assert (event.kind, event.subject) == ("node_killed_by_hand", "main")
    detail = {"incarnation": ward.node, "pid": node.pid, "processes": 2}
    assert {key: value for key, value in event.detail.items() if key != "killed_at_s"} == detail
    assert before_s <= event.detail["killed_at_s"] <= time.time()


def test_a_reused_process_id_is_not_killed(rekindle: Rekindle, ward: Ward, node: Stand) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=node.pid, pid_started=node.pid_started - 1)
    answer = rekindle("kill", "main", "--home", ward.home.root)
    assert answer.code == 1
    assert f"its process {node.pid} is gone" in answer.err
    assert node.process.poll() is None


def test_a_process_that_ended_is_said_to_be_gone(rekindle: Rekindle, ward: Ward, node: Stand) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=node.pid, pid_started=node.pid_started)
    node.process.kill()
    node.process.wait()
    answer = rekindle("kill", "main", "--home", ward.home.root)
    assert answer.code == 1
    assert "is gone" in answer.err


def test_a_node_of_another_host_is_left_alone(rekindle: Rekindle, ward: Ward, node: Stand) -> None:
    ward.keeper.present(ward.node, host="elsewhere", pid=node.pid, pid_started=node.pid_started)
    answer = rekindle("kill", "main", "--home", ward.home.root)
    assert answer.code == 1
    assert "runs on another host" in answer.err
    assert node.process.poll() is None


def test_a_node_that_does_not_run(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.leave(ward.node)
    answer = rekindle("kill", "main", "--home", ward.home.root)
    assert answer.code == 1
    assert "does not run" in answer.err


def test_a_replica_and_a_promoted_node_are_killed_by_the_names_they_bear(
    rekindle: Rekindle, ward: Ward, node: Stand
) -> None:
    ward.keeper.present(ward.node, host=this_host(), pid=node.pid, pid_started=node.pid_started)
    ward.keeper.promote(ward.node, "main.2")
    ward.keeper.leave(ward.keeper.enlist("pool.1", code="c0de"))
    answer = rekindle("kill", "pool.1", "--home", ward.home.root)
    assert (answer.code, "node 'pool.1' does not run" in answer.err) == (1, True)
    assert rekindle("kill", "main", "--home", ward.home.root).code == 2
    assert node.process.poll() is None
    answer = rekindle("kill", "main.2", "--json", "--home", ward.home.root)
    assert (answer.code, answer.json["node"], answer.json["incarnation"]) == (0, "main.2", ward.node)
    assert node.process.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["../main", "1", "mian"])
def test_what_is_no_node_is_refused(rekindle: Rekindle, ward: Ward, name: str) -> None:
    assert rekindle("kill", name, "--home", ward.home.root).code == 2
