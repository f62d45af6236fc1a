from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Rekindle, Ward, words


@pytest.fixture
def lines(ward: Ward) -> Ward:
    ward.stream("lines")
    ward.publish("lines", words("one"), words("two", "three"))
    ward.publish("lines")
    ward.publish("lines", words("four"))
    return ward


def test_json_is_one_row_a_line_in_canonical_order(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "lines", "--json", "--home", lines.home.root)
    assert answer.code == 0
    assert [json.loads(line)["word"] for line in answer.lines] == ["one", "two", "three", "four"]


def test_one_epoch(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "lines", "--json", "--epoch", 1, "--home", lines.home.root)
    assert [json.loads(line)["word"] for line in answer.lines] == ["one", "two", "three"]


def test_an_empty_epoch_has_no_rows(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "lines", "--epoch", 2, "--home", lines.home.root)
    assert (answer.code, answer.out, answer.err) == (0, "", "no rows\n")


def test_a_table_for_people(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "lines", "--limit", 3, "--home", lines.home.root)
    assert answer.lines == ["word   length", "one         3", "two         3", "three       5"]
    assert answer.err == "the first 3 rows; --limit 0 shows all\n"
    whole = rekindle("read", "lines", "--limit", 0, "--home", lines.home.root)
    assert len(whole.lines) == 5
    assert whole.err == ""


def test_every_type_has_a_form(rekindle: Rekindle, ward: Ward) -> None:
    ward.stream("odd")
    row = {
        "when": dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC),
        "day": dt.date(2024, 5, 1),
        "price": Decimal("12.340"),
        "raw": b"\x00\xff",
        "tags": ["a", None],
        "who": {"name": "Ada", "age": 36},
        "none": None,
    }
    ward.publish("odd", pa.Table.from_pylist([row]))
    answer = rekindle("read", "odd", "--json", "--home", ward.home.root)
    assert answer.json == {
        "when": "2024-05-01T12:30:00+00:00",
        "day": "2024-05-01",
        "price": "12.340",
        "raw": "AP8=",
        "tags": ["a", None],
        "who": {"name": "Ada", "age": 36},
        "none": None,
    }
    assert '{"name":"Ada","age":36}' in rekindle("read", "odd", "--home", ward.home.root).out


def test_rows_cannot_steer_the_terminal(rekindle: Rekindle, ward: Ward) -> None:
    ward.stream("lines")
    ward.publish("lines", words("\x1b]0;owned\x07\nnext [red]x"))
    answer = rekindle("read", "lines", "--home", ward.home.root)
    assert len(answer.lines) == 2
    assert "\x1b" not in answer.out
    assert "\\x1b]0;owned\\x07\\nnext [red]x" in answer.out


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", "A", "x" * 64, "-x"])
def test_unsafe_names_are_refused(rekindle: Rekindle, lines: Ward, name: str) -> None:
    answer = rekindle("read", "--home", lines.home.root, "--", name)
    assert answer.code == 2
    assert "is not a usable name" in answer.err


def test_an_unknown_stream_gets_a_suggestion(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "line", "--home", lines.home.root)
    assert answer.code == 2
    assert "did you mean 'lines'?" in answer.err


def test_an_epoch_that_is_not_there(rekindle: Rekindle, lines: Ward) -> None:
    answer = rekindle("read", "lines", "--epoch", 4, "--home", lines.home.root, "--json")
    assert answer.code == 2
    assert answer.json["error"]["hint"] == "the newest is 3"


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_segment_is_found(rekindle: Rekindle, lines: Ward, damage: str) -> None:
    epoch = lines.keeper.epochs("lines", after=0, limit=1)[0]
    path = lines.home.inside(epoch.output.segments[1].path)
    _damage(path, damage)
    answer = rekindle("read", "lines", "--json", "--home", lines.home.root)
    assert answer.code == 3
    error = json.loads(answer.lines[-1])["error"]
    assert error["kind"] == "SegmentDamaged"
    assert "epoch 1 of stream 'lines'" in error["primary"]
    assert error["detail"] == str(path)


def test_no_home(rekindle: Rekindle, tmp_path: Path) -> None:
    answer = rekindle("read", "lines", "--home", tmp_path / "nowhere")
    assert answer.code == 4
    assert "there is no Rekindle home here" in answer.err
    assert not (tmp_path / "nowhere").exists()


def _damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
        return
    if how == "flipped":
        content[len(content) // 2] ^= 1
    else:
        del content[-10:]
    path.write_bytes(content)
