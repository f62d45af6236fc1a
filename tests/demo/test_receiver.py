from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from rekindle.demo.receiver import Receiver
from rekindle.verify.trace import Observation, judge


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver(tmp_path: Path, clock: Clock) -> Receiver:
    return Receiver(tmp_path, ("k",), clock=clock)


def put(folder: Path, name: str, *rows: dict[str, int]) -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
    return file


def seen(receiver: Receiver) -> list[tuple[str, str, float, float | None]]:
    return [(str(o.key), str(o.content), o.seen_s, o.gone_s) for o in receiver.trace()]


def test_rows_carry_the_time_at_which_they_were_first_seen(tmp_path: Path, receiver: Receiver, clock: Clock) -> None:
    assert receiver.look() == 0
    put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10}, {"k": 2, "v": 20})
    assert receiver.look() == 2
    clock.now_s = 101.0
    assert receiver.look() == 0
    put(tmp_path, "epoch=2/part.json", {"k": 3, "v": 30})
    put(tmp_path, "epoch=3/part.json")
    assert receiver.look(thorough=True) == 1
    assert seen(receiver) == [
        ("k=1", '{"v":10}', 100.0, None),
        ("k=2", '{"v":20}', 100.0, None),
        ("k=3", '{"v":30}', 101.0, None),
    ]
    assert receiver.arrivals == [100.0, 101.0]
    assert receiver.disturbances == []


def test_hidden_folders_and_other_files_are_not_there(tmp_path: Path, receiver: Receiver) -> None:
    put(tmp_path, ".epoch=1.tmp/part.json", {"k": 1})
    put(tmp_path, "epoch=1/.part.json", {"k": 1})
    put(tmp_path, "epoch=1/notes.txt", {"k": 1})
    assert receiver.look() == 0


def test_a_file_that_vanishes_takes_its_rows_along(tmp_path: Path, receiver: Receiver, clock: Clock) -> None:
    file = put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10})
    receiver.look()
    file.unlink()
    clock.now_s = 105.0
    receiver.look()
    assert seen(receiver) == [("k=1", '{"v":10}', 100.0, 105.0)]
    assert [(d.file, d.what) for d in receiver.disturbances] == [("epoch=1/part.json", "vanished")]


def test_a_file_that_changes_loses_and_gains_rows(tmp_path: Path, receiver: Receiver, clock: Clock) -> None:
    put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10}, {"k": 2, "v": 20}, {"k": 2, "v": 20})
    receiver.look()
    put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 11}, {"k": 2, "v": 20})
    clock.now_s = 105.0
    assert receiver.look() == 1
    assert seen(receiver) == [
        ("k=1", '{"v":10}', 100.0, 105.0),
        ("k=2", '{"v":20}', 100.0, None),
        ("k=2", '{"v":20}', 100.0, 105.0),
        ("k=1", '{"v":11}', 105.0, None),
    ]
    assert [d.what for d in receiver.disturbances] == ["changed"]


def test_a_thorough_look_finds_a_change_that_left_no_mark(tmp_path: Path, receiver: Receiver) -> None:
    file = put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10})
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    receiver.look()
    with open(file, "r+b") as content:
        content.write(file.read_bytes().replace(b"10", b"11"))
    os.utime(file, ns=times)
    assert receiver.look() == 0
    assert receiver.look(thorough=True) == 1
    assert [d.what for d in receiver.disturbances] == ["changed"]


def test_a_file_written_again_with_the_same_rows_is_noted_and_changes_no_row(
    tmp_path: Path, receiver: Receiver
) -> None:
    file = put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10})
    receiver.look()
    before = receiver.trace()
    file.unlink()
    put(tmp_path, "epoch=1/part.json", {"k": 1, "v": 10})
    os.utime(file, ns=(1, 1))
    receiver.look()
    assert receiver.trace() == before
    assert [d.what for d in receiver.disturbances] == ["rewritten"]


def test_a_line_that_is_no_row_is_an_unexpected_one(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / "a.json").write_bytes(b'{"k": 1\n[3]\n\xff\n')
    receiver.look()
    verdict = judge(receiver.trace(), {})
    assert verdict.unexpected.rows == 3
    assert all(isinstance(o, Observation) and o.key.startswith("unreadable a.json:") for o in receiver.trace())
