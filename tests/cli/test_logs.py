from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.cli import main
from rekindle.home import Home, create_or_open
from tests.cli.conftest import Rekindle


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


@pytest.mark.parametrize("name", ["../main", "main-12", "/etc/passwd", "mian"])
def test_what_is_no_node_is_refused(rekindle: Rekindle, home: Home, name: str) -> None:
    answer = rekindle("logs", name, "--home", home.root)
    assert answer.code == 2
    assert answer.out == ""


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
