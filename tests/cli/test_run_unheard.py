"""``rekindle run`` goes on looking after its nodes when nobody listens any more, and drains them whatever ends it."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from rekindle.cli.report import outlet
from rekindle.cli.run import Run
from rekindle.errors import RekindleError
from rekindle.supervisor.processes import Processes
from rekindle.supervisor.supervise import Supervisor
from tests.supervisor.world import World, alive, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    made = World(tmp_path)
    yield made
    made.close()


@contextmanager
def running(tmp_path: Path, *args: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(Path(__file__).with_name("fake_run.py")), str(tmp_path), *args]
    with subprocess.Popen(command, start_new_session=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def assert_drained(world: World) -> None:
    states = {member.state for member in world.keeper.members(live=False)}
    assert states <= {"left", "fenced"} and "left" in states
    processes = Processes(world.home.id)
    assert processes.incarnations() == {}
    processes.close()


def close(stream: IO[bytes] | None) -> None:
    assert stream is not None
    stream.close()


@pytest.mark.processes
@pytest.mark.parametrize("args", [[], ["--json"]])
def test_pipes_that_nobody_reads_any_more(world: World, tmp_path: Path, args: list[str]) -> None:
    with running(tmp_path, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first = until(None, world.beating, "the node beats")
        close(process.stderr)
        close(process.stdout)
        os.kill(first.pid, signal.SIGKILL)
        until(None, lambda: world.beating(but=first.incarnation), "the node is looked after still")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert_drained(world)


@pytest.mark.processes
def test_streams_that_never_were(world: World, tmp_path: Path) -> None:
    command = 'exec "$0" "$@" <&- >&- 2>&-'
    fake = [sys.executable, str(Path(__file__).with_name("fake_run.py")), str(tmp_path)]
    with subprocess.Popen(["sh", "-c", command, *fake], start_new_session=True) as process:
        until(None, world.beating, "the node beats")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert_drained(world)


@pytest.mark.processes
def test_a_failure_is_told_by_the_exit_code_where_nobody_listens(world: World, tmp_path: Path) -> None:
    world.tell("a", "exit", "1")
    with running(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        close(process.stderr)
        close(process.stdout)
        assert process.wait(30) == 3


@pytest.mark.processes
def test_a_refusal_is_told_by_the_exit_code_where_nobody_listens(world: World, tmp_path: Path) -> None:
    world.tell("a", "exit", "2")
    with running(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        close(process.stderr)
        close(process.stdout)
        assert process.wait(30) == 2


@pytest.mark.processes
def test_a_terminal_that_closes(world: World, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with running(tmp_path, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.set_blocking(master, False)
        until(None, lambda: _read(master) and world.beating(), "the node beats")
        os.close(master)  # the kernel says SIGHUP, and every write fails from here on
        assert process.wait(30) == 0
    assert_drained(world)
    assert world.events("node_killed") == []


@pytest.mark.processes
def test_a_terminal_that_closes_without_ending_what_ran_in_it(world: World, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; it is inherited
    try:
        with running(tmp_path, stdin=slave, stdout=slave, stderr=slave) as process:
            os.close(slave)
            os.set_blocking(master, False)
            first = until(None, lambda: _read(master) and world.beating(), "the node beats")
            os.close(master)
            os.kill(first.pid, signal.SIGKILL)
            until(None, lambda: world.beating(but=first.incarnation), "the node is looked after still")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert_drained(world)


def _read(master: int) -> bool:
    with suppress(BlockingIOError):
        os.read(master, 1 << 16)
    return True


class Failing(Supervisor):
    """One whose steps fail once its node beats, ``times`` over."""

    def __init__(self, world: World, times: int) -> None:
        super().__init__(world.home, world.keeper, world.pipeline, world.command, code="v1")
        self.world = world
        self.times = times
        world.supervisors.append(self)

    def step(self, timeout_s: float = 0.25) -> None:
        if self.times and self.world.beating():
            self.times -= 1
            raise ZeroDivisionError("by nought")
        super().step(timeout_s)


def a_run(world: World, supervisor: Supervisor) -> Run:
    return Run(world.home, world.keeper, world.pipeline, supervisor, monotonic=time.monotonic)


@pytest.mark.processes
def test_the_unexpected_ends_the_run_but_not_before_its_nodes(world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        a_run(world, Failing(world, 1)).to_its_end(None, None, as_json=False)
    assert_drained(world)
    assert world.events("supervisor_stopped")


@pytest.mark.processes
def test_what_cannot_be_shown_is_not_shown_again_while_nodes_drain(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: object) -> None:
        if world.beating():
            raise ZeroDivisionError("by nought")

    monkeypatch.setattr("rekindle.cli.progress.Lines._events", lambda self, facts: look(facts))
    with pytest.raises(ZeroDivisionError):
        a_run(world, world.supervisor()).to_its_end(None, None, as_json=False)
    assert_drained(world)


@pytest.mark.processes
def test_nodes_that_cannot_be_drained_are_named_and_what_ends_them(world: World) -> None:
    with pytest.raises(RekindleError, match="its nodes may still run") as caught:
        a_run(world, Failing(world, 1000)).to_its_end(None, None, as_json=False)
    assert "by nought" in caught.value.detail
    assert "rekindle stop --home" in caught.value.hint
    assert caught.value.exit_code == 1
    assert alive(world.member().pid)


class Gone(io.StringIO):
    """A stream whose reader went away."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(5, "EIO"), ValueError("I/O operation on closed file")])
def test_an_outlet_never_raises(error: Exception) -> None:
    stream = outlet(Gone(error))
    assert stream.write("a") == 1
    stream.flush()
    assert not stream.isatty()


def test_an_outlet_writes_what_its_stream_cannot_encode_as_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    outlet(stream).write("5 × ö\n")
    assert raw.getvalue() == b"5 \\xd7 \\xf6\n"
