"""The comparison can say no, to each kind of difference; and latency counts from when a second was due."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.linear_road.judge import Differences, Found, Longs, compare, found_in, judged, latency
from bench.linear_road.oracle import FIELDS
from bench.linear_road.world import ANSWERS

EXPECTED = {
    0: [[1, 10, 40, 0], [1, 11, 30, 200], [2, 10, 30, 0]],
    1: [[1, 10, 0, 20, 0], [1, 11, 0, 20, 0]],
    2: [[1, 100, 1, 0], [2, 101, 2, 50]],
    3: [[1, 200, 12], [2, 201, 0]],
}


def rows(of: list[list[int]], kind: int) -> Longs:
    return np.array(of, dtype=np.int64).reshape(-1, len(FIELDS[kind]))


def judge(kind: int, found: list[list[int]]) -> Differences:
    return compare(kind, rows(found, kind), rows(EXPECTED[kind], kind))


@pytest.mark.parametrize("kind", FIELDS)
def test_the_same_rows_in_any_order_are_right(kind: int) -> None:
    assert judge(kind, EXPECTED[kind][::-1]) == Differences(len(EXPECTED[kind]))
    assert judge(kind, EXPECTED[kind]).sound


@pytest.mark.parametrize("kind", FIELDS)
def test_lost_rows_are_counted_also_if_all_are(kind: int) -> None:
    count = len(EXPECTED[kind])
    assert judge(kind, EXPECTED[kind][1:]) == Differences(count, lost=1)
    assert judge(kind, []) == Differences(count, lost=count)
    assert not judge(kind, []).sound


@pytest.mark.parametrize("kind", FIELDS)
def test_repeated_rows_are_counted(kind: int) -> None:
    assert judge(kind, EXPECTED[kind] * 3) == Differences(len(EXPECTED[kind]), repeated=2 * len(EXPECTED[kind]))


@pytest.mark.parametrize("kind", [0, 2, 3])
def test_wrong_values_are_counted(kind: int) -> None:
    first, *others = EXPECTED[kind]
    wrong = [*first[:-1], first[-1] + 1]
    assert judge(kind, [wrong, *others]) == Differences(len(EXPECTED[kind]), wrong=1)
    assert judge(kind, [first, wrong, *others]) == Differences(len(EXPECTED[kind]), repeated=1)


@pytest.mark.parametrize("kind", FIELDS)
def test_answers_to_nothing_are_counted(kind: int) -> None:
    other = [9, *EXPECTED[kind][0][1:]]
    assert judge(kind, [other, other, *EXPECTED[kind]]) == Differences(len(EXPECTED[kind]), unexpected=2)


def test_one_that_is_lost_and_one_that_is_repeated_do_not_make_up_for_each_other() -> None:
    a, _, c = EXPECTED[0]
    assert judge(0, [a, a, c]) == Differences(3, lost=1, repeated=1)


def write(folder: Path, epoch: int, answers: list[dict[str, int]]) -> None:
    made = folder / f"epoch={epoch:012d}"
    made.mkdir(parents=True)
    table = {name: pa.array([row.get(name, -1) for row in answers], pa.int32()) for name in ANSWERS}
    pq.write_table(pa.table(table), made / "part-00000.parquet")


def test_what_the_sink_has_shown_is_read_with_the_time_of_each_epoch(tmp_path: Path) -> None:
    write(tmp_path, 1, [{"type": 0, "time": 1, "vid": 10, "lav": 40, "toll": 0}])
    write(tmp_path, 2, [{"type": 3, "time": 2, "vid": 10, "qid": 201, "bal": 7}])
    (tmp_path / ".epoch=000000000003.1.tmp").mkdir()
    found = found_in(tmp_path)
    assert found.rows[0].tolist() == [[1, 10, 40, 0]] and found.rows[3].tolist() == [[2, 201, 7]]
    assert not len(found.rows[1]) and found.rows[1].shape[1] == 5
    assert found.emitted_s[3].tolist() == [os.stat(tmp_path / "epoch=000000000002").st_ctime]


def test_an_answer_of_no_known_type_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 1, [{"type": 7}])
    with pytest.raises(ValueError, match="unknown type"):
        found_in(tmp_path)


def emitted(took_s: float) -> Found:
    """Every answer ``took_s`` after its second, by a clock at which second 0 is 1000."""
    of = {kind: rows(EXPECTED[kind], kind) for kind in FIELDS}
    return Found(of, {kind: (1000 + of[kind][:, 0] + took_s).astype(np.float64) for kind in FIELDS})


def test_latency_is_that_of_the_paced_part() -> None:
    found = latency(emitted(3.0), 0, from_time=2, began_s=1002.0)
    assert found is not None and (found.answers, found.p50_s, found.max_s, found.late) == (1, 3.0, 3.0, 0)
    assert latency(emitted(3.0), 0, from_time=3, began_s=1003.0) is None


@pytest.mark.parametrize(("took_s", "in_time"), [(5.0, True), (5.5, False)])
def test_the_deadline(took_s: float, in_time: bool) -> None:
    expected = {kind: rows(EXPECTED[kind], kind) for kind in FIELDS}
    verdict = judged(emitted(took_s), expected, 1, 1001.0)
    assert verdict.right and verdict.in_time == in_time
    told = verdict.as_json()
    assert (told["right"], told["in_time"]) == (True, in_time)
    assert told["toll"]["latency"]["late"] == (0 if in_time else 3)


def test_wrong_answers_in_time_are_not_right() -> None:
    expected = {kind: rows(EXPECTED[kind], kind) for kind in FIELDS}
    verdict = judged(emitted(1.0), {**expected, 1: expected[1][:1]}, 1, 1001.0)
    assert verdict.in_time and not verdict.right
