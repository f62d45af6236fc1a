"""A judge that finds nothing is no judge: each kind of damage is found and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench._verdict import Verdict, columns, compared, in_the_end, rows_changed
from bench.peers.base import Shown, Sight
from tests.bench.workloads import AS_IT_IS, numbered

UPDATED = replace(AS_IT_IS, mode="update", key=("value",))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (numbered(0, 10), (0, 0, 0)),
        (numbered(0, 8), (2, 0, 0)),
        (pa.concat_tables([numbered(0, 10), numbered(4, 3)]), (0, 3, 0)),
        (pa.table({"seq": range(10), "value": [0, 2, 5, 6, 8, 10, 12, 14, 16, 18]}), (0, 0, 1)),
        (pa.concat_tables([numbered(0, 10), numbered(90, 1)]), (0, 0, 1)),
        (numbered(5, 10), (5, 0, 5)),
    ],
    ids=["exact", "lost", "duplicated", "another content", "a key that should not be", "shifted"],
)
def test_each_kind_of_damage_is_told_from_the_others(found: pa.Table, verdict: tuple[int, int, int]) -> None:
    assert compared(found, numbered(0, 10), AS_IT_IS) == verdict


def test_the_order_of_rows_is_nothing() -> None:
    assert compared(numbered(0, 10).take(list(range(9, -1, -1))), numbered(0, 10), AS_IT_IS) == (0, 0, 0)


def test_no_output_at_all_is_lost() -> None:
    assert compared(in_the_end([], AS_IT_IS), numbered(0, 10), AS_IT_IS) == (10, 0, 0)


def test_of_an_update_the_newest_of_each_key_counts_wherever_it_stands() -> None:
    first = pa.table({"seq": [1, 9], "value": [7, 8]})
    second = pa.table({"seq": [5, 2], "value": [7, 8]})
    assert sorted(in_the_end([first, second], UPDATED).to_pylist(), key=str) == [
        {"seq": 5, "value": 7},
        {"seq": 9, "value": 8},
    ]


def test_integers_and_doubles_are_alike_whatever_their_width() -> None:
    workload = replace(AS_IT_IS, columns="seq long, x double")
    narrow = pa.table({"seq": pa.array([1], pa.int32()), "x": pa.array([0.1 + 0.2])})
    wide = pa.table({"x": pa.array([0.3]), "seq": pa.array([1], pa.int64())})
    assert columns(narrow, workload).equals(columns(wide, workload))


def test_a_null_is_a_content_of_its_own_and_equal_to_a_null() -> None:
    workload = replace(AS_IT_IS, columns="seq long, value long, name string")
    some = pa.table({"seq": [1, 2], "value": [None, 4], "name": ["a", None]})
    other = pa.table({"seq": [1, 2], "value": [None, 4], "name": ["a", ""]})
    assert compared(columns(some.take([1, 0]), workload), some, workload) == (0, 0, 0)
    assert compared(columns(other, workload), some, workload) == (0, 0, 1)


def test_it_is_the_same_however_many_rows_are_looked_at_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench._verdict.HASHED_ROWS", 3)
    assert compared(numbered(5, 10), numbered(0, 10), AS_IT_IS) == (5, 0, 5)


# -- what a reader saw -------------------------------------------------------------------------------------


def sight(tmp_path: Path, *shown: tuple[str, pa.Table]) -> Sight:
    found = Sight()
    for number, (name, table) in enumerate(shown):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path)
        found.add(Shown(name, float(number), (path,), table.num_rows))
    return found


def test_what_was_shown_once_and_stays_is_not_changed(tmp_path: Path) -> None:
    assert rows_changed(sight(tmp_path, ("a", numbered(0, 5)), ("b", numbered(5, 5))), [], pq.read_table) == 0


def test_a_batch_that_comes_again_the_same_is_not_changed(tmp_path: Path) -> None:
    assert rows_changed(sight(tmp_path, ("a", numbered(0, 5)), ("a", numbered(0, 5))), [], pq.read_table) == 0


def test_a_batch_that_comes_again_with_other_rows_is_changed_by_those_that_were_seen(tmp_path: Path) -> None:
    assert rows_changed(sight(tmp_path, ("a", numbered(0, 5)), ("a", numbered(2, 9))), [], pq.read_table) == 2


def test_what_is_gone_is_changed(tmp_path: Path) -> None:
    assert rows_changed(sight(tmp_path, ("a", numbered(0, 5))), ["a"], pq.read_table) == 5


def test_a_verdict_says_what_is_wrong() -> None:
    assert str(Verdict(expected=1000)) == "exact (1,000 rows)"
    assert str(Verdict(10, lost=1, changed=2000)) == "1 lost, 2,000 changed"
    assert str(Verdict(10, problem="no window has 7 rows")) == "no window has 7 rows"
    assert not Verdict(10, problem="no window has 7 rows").is_right
    assert Verdict(10, changed=1).is_right  # what is there in the end is right
