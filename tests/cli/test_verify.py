"""What is refused before anything runs, and what is shown on the way."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from rekindle.cli.verify import Bar, view_for
from rekindle.errors import DeclarationError
from tests.cli.conftest import Rekindle

FILE = """
import rekindle as rk

pipeline = rk.Pipeline("p")
pipeline.source("lines", rk.sources.Files("nowhere", format="json", schema="id long"))


@pipeline.stream
def all_lines(lines):
    return lines
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--faults", "kill-nod"), "did you mean 'kill-node'?"),
        (("--faults", ","), "there are: kill-node"),
        (("--keeper", "mysql"), "sqlite or postgresql"),
        (("--for", "10"), "write a number and a unit"),
    ],
)
def test_wrong_options_are_refused(rekindle: Rekindle, tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    answer = rekindle("verify", tmp_path / "p.py", *options)
    assert answer.code == DeclarationError.exit_code and said in " ".join(answer.err.split())


def test_a_folder_that_is_not_empty_is_not_scratch(rekindle: Rekindle, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    answer = rekindle("verify", tmp_path / "p.py", "--keep", tmp_path)
    assert answer.code == 2 and "is not an empty folder" in answer.err
    answer = rekindle("soak", "--keep", tmp_path)
    assert answer.code == 2 and "is not an empty folder" in answer.err


def test_a_file_that_is_not_there_and_input_that_is_not_there(rekindle: Rekindle, tmp_path: Path) -> None:
    answer = rekindle("verify", tmp_path / "p.py")
    assert answer.code == 2 and "there is no pipeline file" in answer.err
    (tmp_path / "p.py").write_text(FILE)
    answer = rekindle("verify", tmp_path / "p.py", "--input", tmp_path / "other")
    assert answer.code == 2 and "no input for source 'lines'" in answer.err


def test_without_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with view_for(as_json=False) as view:
        view.progress("run 1 of 3", 0.1)
        view.progress("run 1 of 3", 0.2)
        view.say("kill-node: done\x1b[2J")
    assert capsys.readouterr().err.splitlines() == ["run 1 of 3 ...", "kill-node: done\\x1b[2J"]


def test_in_a_terminal_there_is_a_bar() -> None:
    out = io.StringIO()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, console=Console(file=out, force_terminal=True, width=80), auto_refresh=False) as bar:
        view = Bar(bar)
        view.progress("run 1 of 3", 0.25)
        bar.refresh()
        view.say("kill-node: [done]")
        view.progress("run 2 of 3", 0.5)
        bar.refresh()
    shown = out.getvalue()
    assert "run 1 of 3" in shown and "25%" in shown and "[done]" in shown and "run 2 of 3" in shown and "50%" in shown
