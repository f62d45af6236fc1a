from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rekindle.cli import logs, main
from rekindle.errors import KeeperUnavailable
from rekindle.home import Home, create_or_open
from tests.cli.conftest import Rekindle, Ward


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = create_or_open(tmp_path / "home", "words", None)
    (home.logs / "main-1.log").write_text("old\n")
    (home.logs / "main-12.log").write_text("one\ntwo \x1b[31mred\nthree\n")
    (home.logs / "aux-3.log").write_text("other\n")
    (home.logs / "notes.txt").write_text("not a log\n")
    return home


def test_the_newest_incarnation_of_a_node(rekindle: Rekindle, home: Home) -> None:
    assert rekindle("logs", "main", "--home", home.root).lines == ["one", "two \\x1b[31mred", "three"]
    assert rekindle("logs", "main", "-n", 1, "--home", home.root).lines == ["three"]


def test_an_older_incarnation(rekindle: Rekindle, home: Home) -> None:
    assert rekindle("logs", "main", "--incarnation", 1, "--home", home.root).lines == ["old"]


def test_all_nodes_have_headings(rekindle: Rekindle, home: Home) -> None:
    lines = rekindle("logs", "-n", 1, "--home", home.root).lines
    assert lines == ["==> aux-3.log <==", "other", "==> main-12.log <==", "three"]


@pytest.mark.parametrize("name", ["../main", "main-12", "/etc/passwd", "mian", "main.2", "main.", "main.x", "main.01"])
def test_what_is_no_node_is_refused(rekindle: Rekindle, home: Home, name: str) -> None:
    answer = rekindle("logs", name, "--home", home.root)
    assert answer.code == 2
    assert answer.out == ""


def test_replicas_and_warm_nodes_have_logs_of_their_own(rekindle: Rekindle, home: Home) -> None:
    (home.logs / "main.2-13.log").write_text("second\n")
    (home.logs / "pool.1-14.log").write_text("warm\n")
    assert rekindle("logs", "main.2", "--home", home.root).lines == ["second"]
    assert rekindle("logs", "pool.1", "--home", home.root).lines == ["warm"]
    assert rekindle("logs", "main", "-n", 1, "--home", home.root).lines == ["three"]


@pytest.fixture
def promoted(ward: Ward) -> Ward:
    """Incarnation 2 was warm as pool.1 and has become main when 3 had died; 4 is the new pool.1."""
    warm = ward.keeper.enlist("pool.1", code="c0de")
    dead = ward.keeper.enlist("main", code="c0de")
    ward.keeper.promote(warm, "main")
    ward.keeper.enlist("pool.1", code="c0de")
    (ward.home.logs / f"pool.1-{warm}.log").write_text("warmed up\nnow main\n")
    (ward.home.logs / f"main-{dead}.log").write_text("died\n")
    return ward


def test_the_log_of_a_promoted_node_is_found_by_its_name_now(rekindle: Rekindle, promoted: Ward) -> None:
    root = promoted.home.root
    assert rekindle("logs", "main", "--home", root).lines == ["warmed up", "now main"]
    assert rekindle("logs", "main", "--incarnation", 3, "--home", root).lines == ["died"]
    assert rekindle("logs", "main", "--incarnation", 2, "-n", 1, "--home", root).lines == ["now main"]
    (promoted.home.logs / "pool.1-4.log").write_text("fresh\n")
    assert rekindle("logs", "pool.1", "--home", root).lines == ["fresh"]
    both = rekindle("logs", "-n", 1, "--home", root).lines
    assert both == ["==> pool.1-2.log (node main) <==", "now main", "==> pool.1-4.log <==", "fresh"]


def test_a_name_that_nobody_bears_any_more_still_finds_the_log(rekindle: Rekindle, promoted: Ward) -> None:
    assert rekindle("logs", "pool.1", "-n", 1, "--home", promoted.home.root).lines == ["now main"]


def test_without_a_keeper_files_go_by_their_names(
    rekindle: Rekindle, promoted: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(root: Path, keeper_url: str | None) -> None:
        raise KeeperUnavailable("the keeper does not answer")

    monkeypatch.setattr("rekindle.cli.logs.opened", away)
    answer = rekindle("logs", "main", "--home", promoted.home.root)
    assert answer.lines == ["died"]
    assert answer.err.count("the keeper does not answer") == 1


def test_following_goes_on_to_the_next_incarnation(home: Home) -> None:
    command = [sys.executable, "-m", "rekindle", "logs", "main", "-f", "-n", "1", "--home", str(home.root)]
    env = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "three\n"
        with open(home.logs / "main-12.log", "a") as log:
            log.write("four\nhalf")
        assert process.stdout.readline() == "four\n"
        (home.logs / "main-13.log").write_text("reborn\n")
        assert process.stdout.readline() == "==> main-13.log <==\n"
        assert process.stdout.readline() == "reborn\n"
        process.terminate()


def test_following_goes_on_when_a_log_is_trimmed(home: Home) -> None:
    command = [sys.executable, "-m", "rekindle", "logs", "-f", "-n", "1", "--home", str(home.root)]
    env = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(4)][-1] == "three\n"
        (home.logs / "aux-3.log").unlink()
        time.sleep(1)  # it looks several times
        with open(home.logs / "main-12.log", "a") as log:
            log.write("four\n")
        assert process.stdout.readline() == "four\n", process.stderr.read()
        process.terminate()


def test_a_log_that_is_trimmed_while_it_is_looked_for(
    rekindle: Rekindle, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(folder: Path, members: object) -> list[logs.Log]:
        found = real(folder, [])
        (folder / "aux-3.log").unlink()
        return found

    real = logs.find
    monkeypatch.setattr(logs, "find", find)
    answer = rekindle("logs", "-n", 1, "--home", home.root)
    assert (answer.code, answer.lines) == (0, ["==> main-12.log <==", "three"])


def test_following_ends_with_ctrl_c(home: Home) -> None:
    command = [sys.executable, "-m", "rekindle", "logs", "main", "-f", "-n", "1", "--home", str(home.root)]
    env = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[2])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "three\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(10), process.stdout.read()) == (130, "")
