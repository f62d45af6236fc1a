"""``rekindle run`` from its first to its last word, with fake nodes."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rekindle.cli.main import app
from rekindle.cli.run import Run, printed_where, run_file
from rekindle.errors import DeclarationError, HomeInUse, NoJava
from rekindle.home import HomeLock, create_or_open
from rekindle.keeper.records import EpochNumber
from rekindle.pipeline import Pipeline
from rekindle.sinks import Console, Files
from rekindle.sources import Rate
from rekindle.supervisor.supervise import Supervisor
from tests.supervisor.world import World, alive, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    made = World(tmp_path)
    yield made
    made.close()


def a_run(world: World, supervisor: Supervisor | None = None) -> Run:
    supervisor = supervisor or world.supervisor()
    return Run(world.home, world.keeper, world.pipeline, supervisor, monotonic=time.monotonic)


def when(condition: Callable[[], Any], then: Callable[[], object]) -> threading.Thread:
    """Do something once a condition holds, beside the run."""

    def wait() -> None:
        until(None, condition, "what the run is interrupted at")
        then()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.processes
def test_until_idle(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert a_run(world).to_its_end(None, 0.3, as_json=True) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ended"], said["exit_code"], said["restarts"], said["failures"]) == ("idle", 0, 0, [])
    assert [member.state for member in world.keeper.members(live=False)] == ["left"]


@pytest.mark.processes
def test_for_a_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert a_run(world).to_its_end(0.01, None, as_json=False) == 0
    said = capsys.readouterr()
    assert "time is over" in said.out
    assert "node_started" in said.err


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains(world: World, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    thread = when(world.beating, lambda: os.kill(os.getpid(), number))
    assert a_run(world).to_its_end(None, None, as_json=False) == 0
    thread.join()
    assert "interrupted" in capsys.readouterr().out
    assert [member.state for member in world.keeper.members(live=False)] == ["left"]
    assert signal.getsignal(number) is before


@pytest.mark.processes
def test_a_second_interrupt_kills(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tell("a", "stubborn")
    pids: list[int] = []

    def twice() -> None:
        pids.append(world.member().pid)
        interrupt()
        until(None, lambda: world.events("node_asked_to_drain"), "it is asked to drain")
        interrupt()

    thread = when(world.beating, twice)
    assert a_run(world).to_its_end(None, None, as_json=False) == 0
    thread.join()
    assert "killed instead of drained" in capsys.readouterr().out
    assert not alive(pids[0])


@pytest.mark.processes
def test_nothing_left_is_a_failure(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.tell("a", "exit", "1")
    assert a_run(world).to_its_end(None, None, as_json=True) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["ended"] == "no node is left"
    assert said["failures"][0]["subject"] == "node a"


@pytest.mark.processes
def test_a_failed_fragment_is_told_at_the_end(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        world.keeper.record_failure(
            "words", EpochNumber(3), reason="it raised", traceback="line 7", by=world.member().incarnation
        )
        interrupt()

    when(world.beating, fail)
    assert a_run(world).to_its_end(None, None, as_json=False) == 3
    said = capsys.readouterr().err
    assert "failed: words at epoch 3: it raised" in said
    assert "line 7" in said


@pytest.mark.processes
def test_a_refused_file_ends_the_run(world: World) -> None:
    world.tell("a", "exit", "2")
    with pytest.raises(DeclarationError):
        a_run(world).to_its_end(None, None, as_json=False)
    assert world.events("supervisor_stopped")


@pytest.mark.processes
def test_it_is_said_where_a_console_sink_prints(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.pipeline.sink("source_a", Console(), node="a")
    a_run(world).to_its_end(0.01, None, as_json=False)
    assert f"what source_a_sink prints: rekindle logs a -f --home {world.home.root}" in capsys.readouterr().err


def test_where_console_sinks_print(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "my home", "test", None)
    pipeline = Pipeline("test")
    pipeline.source("lines", Rate(1))
    pipeline.sink("lines", Files(tmp_path / "out"))
    pipeline.sink("lines", Console(file=io.StringIO()), name="elsewhere")
    assert printed_where(pipeline, home) == ""
    pipeline.sink("lines", Console(), name="shown")
    assert printed_where(pipeline, home) == f"what shown prints: rekindle logs main -f --home '{home.root}'"
    pipeline.sink("lines", Console(), name="too", node="other")
    assert printed_where(pipeline, home) == f"what shown, too prints: rekindle logs -f --home '{home.root}'"


def test_a_wrong_file_makes_no_home(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError):
        run_file(tmp_path / "none.py", tmp_path / "home", None, None, None, False, None)
    assert not (tmp_path / "home").exists()


def test_a_guarantee_that_cannot_be_given_makes_no_home(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.py"
    file.write_text(
        "import rekindle as rk\n"
        "pipeline = rk.Pipeline('words', recovery=rk.Gap())\n"
        "pipeline.source('lines', rk.sources.Rate(10))\n"
        "@pipeline.stream(guarantee='precise')\n"
        "def counts(lines): return lines\n"
    )
    with pytest.raises(DeclarationError, match="stream 'counts' is declared precise, but gives only at-most-once"):
        run_file(file, tmp_path / "home", None, None, None, False, None)
    assert not (tmp_path / "home").exists()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline file that is right."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    file = tmp_path / "test.py"
    file.write_text(
        "import rekindle as rk\npipeline = rk.Pipeline('test')\n"
        "pipeline.source('lines', rk.sources.Files('in', format='json', schema='line string'))\n"
    )
    return file


def test_without_java_nothing_is_made(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(NoJava):
        run_file(file, tmp_path / "home", None, None, None, False, None)
    assert not (tmp_path / "home").exists()
    for args in (["explain", str(file)], ["run", str(file), "--home", str(tmp_path / "home")], ["demo"]):
        answer = CliRunner().invoke(app, args)
        assert answer.exit_code == 2
        assert "error: Spark needs Java 17 or newer, and there is none" in answer.stderr
        assert "Traceback" not in answer.stderr


def test_a_home_in_use_is_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.cli.run.check_java", lambda: None)
    lock = HomeLock(create_or_open(tmp_path / "home", "test", None))
    with pytest.raises(HomeInUse):
        run_file(file, tmp_path / "home", None, None, None, False, None)
    lock.release()
