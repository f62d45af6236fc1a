from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.cli import audit
from rekindle.cli.audit import lines
from rekindle.verify.findings import WRONG, Finding
from tests.cli.conftest import Rekindle, Ward, words

FILE = """
import rekindle as rk

pipeline = rk.Pipeline("{name}")
pipeline.source("lines", rk.sources.Rate(1))
"""


@pytest.fixture(autouse=True)
def not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are one process, which shall not be slowed down for good."""
    monkeypatch.setattr(audit, "NICE", 0)


@pytest.fixture
def lined(ward: Ward) -> Ward:
    ward.stream("lines")
    for word in ("one", "two", "three"):
        ward.publish("lines", words(word))
    return ward


def written(folder: Path, name: str) -> Path:
    path = folder / "pipeline.py"
    path.write_text(FILE.format(name=name))
    return path


def test_a_sound_home(rekindle: Rekindle, lined: Ward) -> None:
    answer = rekindle("audit", "--no-recompute", "--home", lined.home.root)
    assert answer.code == 0 and answer.lines[-1] == "nothing is wrong"
    assert any("segments" in line and "lines" in line and "3 segments" in line for line in answer.lines)
    assert "segments: 3" in answer.err
    told = rekindle("audit", "--no-recompute", "--json", "--home", lined.home.root).json
    assert told["ok"] and told["findings"] == [] and told["checked"][0]["check"] == "records"


def test_what_is_wrong_is_said_with_what_to_do_and_an_exit_code(rekindle: Rekindle, lined: Ward) -> None:
    epoch = lined.keeper.heads()["lines"]
    path = lined.home.root / epoch.output.segments[0].path
    path.unlink()
    answer = rekindle("audit", "--no-recompute", "--home", lined.home.root)
    assert answer.code == 1
    at = next(n for n, line in enumerate(answer.lines) if line.startswith("wrong: "))
    assert answer.lines[at] == "wrong: a segment of epoch 3 of stream 'lines' is damaged: the file is missing"
    assert answer.lines[at + 1].strip() == str(path)
    assert answer.lines[at + 2].strip().startswith("hint: put the file back")
    assert answer.lines[-1] == "1 wrong, 0 to note"
    told = rekindle("audit", "--no-recompute", "--json", "--home", lined.home.root)
    assert told.code == 1 and not told.json["ok"] and told.json["findings"][0]["epoch"] == 3


def test_only_some_epochs(rekindle: Rekindle, lined: Ward) -> None:
    (lined.home.root / lined.keeper.epochs("lines", after=0)[0].output.segments[0].path).unlink()
    for wish, code in ((["--last", 2], 0), (["--epochs", "2..3"], 0), (["--epochs", "1..1"], 1), (["--last", 3], 1)):
        assert rekindle("audit", "--no-recompute", *wish, "--home", lined.home.root).code == code, wish


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--epochs", "3"], "is not a range of epochs"),
        (["--epochs", "3..1"], "is not a range of epochs"),
        (["--epochs", "1..2", "--last", "1"], "exclude each other"),
        (["--streams", "lime", "--no-recompute"], "there is no stream 'lime'"),
        ([], "it is not on record which pipeline file ran on this home"),
    ],
)
def test_a_wrong_command_line(rekindle: Rekindle, lined: Ward, arguments: list[str], said: str) -> None:
    answer = rekindle("audit", *arguments, "--home", lined.home.root)
    assert answer.code == 2 and said in answer.err


def test_a_file_that_is_gone_or_another_pipelines(rekindle: Rekindle, lined: Ward, tmp_path: Path) -> None:
    lined.keeper.record_file(str(tmp_path / "gone.py"), "c0de")
    answer = rekindle("audit", "--home", lined.home.root)
    assert answer.code == 2 and "is gone" in answer.err and "--no-recompute" in answer.err
    answer = rekindle("audit", "--file", written(tmp_path, "other"), "--home", lined.home.root)
    assert answer.code == 2 and "belongs to the pipeline 'words', the file declares 'other'" in answer.err


def test_rows_that_differ_are_shown() -> None:
    finding = Finding(WRONG, "recomputed", "s", 3, "it differs", "here\nand there", "do this", ['{"a":1}'], ['{"a":2}'])
    assert list(lines(finding)) == [
        "wrong: it differs",
        '    expected  {"a":1}',
        '    computed  {"a":2}',
        "    here",
        "    and there",
        "    hint: do this",
    ]
