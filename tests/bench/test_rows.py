"""The input that follows from its numbers, and the tally that judges an output."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench._rows import FIRST_US, WINDOW_S, Feeder, Rows, Tally, every_key

KEYS = 50


def test_the_same_numbers_are_the_same_rows_and_every_key_comes_once_first(tmp_path: Path) -> None:
    rows = every_key(tmp_path, KEYS)
    (path,) = tmp_path.iterdir()
    table = pq.read_table(path)
    assert table["key"].to_pylist() == list(range(KEYS))
    numbers, keys, values = rows[0].columns()
    assert numbers.tolist() == table["seq"].to_pylist()
    assert (keys.tolist(), values.tolist()) == (table["key"].to_pylist(), table["value"].to_pylist())


def test_a_feeder_goes_on_after_the_first_rows_without_holes(tmp_path: Path) -> None:
    feeder = Feeder(tmp_path, KEYS, KEYS)
    feeder.start()
    while len(feeder.fed) < 3:
        time.sleep(0.01)
    feeder.stop()
    assert len(list(tmp_path.glob("[!.]*.parquet"))) == len(feeder.fed)
    assert [rows.first for rows in feeder.fed] == [KEYS + 1000 * i for i in range(len(feeder.fed))]


def test_what_a_feeder_raises_is_raised_when_it_stops(tmp_path: Path) -> None:
    feeder = Feeder(tmp_path / "missing", KEYS, 0)
    feeder.start()
    feeder._thread.join()
    with pytest.raises(FileNotFoundError):
        feeder.stop()


def epoch(keys: list[int], counts: list[int], sums: list[int]) -> pa.Table:
    return pa.table({"key": keys, "n": counts, "sum": sums})


def test_the_newest_output_of_a_key_counts() -> None:
    tally = Tally(KEYS)
    tally.apply(epoch([1, 2], [1, 1], [5, 6]))
    tally.apply(epoch([1], [3], [9]))
    assert tally.rows() == 4 and tally.counts[1] == 3 and tally.sums[1] == 9


def test_the_input_comes_to_what_its_rows_say() -> None:
    rows = Rows(0, 1000, KEYS)
    tally = Tally.of_input([rows], KEYS, windowed=False)
    _, keys, values = rows.columns()
    assert tally.rows() == 1000
    assert all(tally.counts[k] == (keys == k).sum() and tally.sums[k] == values[keys == k].sum() for k in range(KEYS))


@pytest.mark.parametrize("windowed", [False, True])
def test_one_wrong_sum_differs(windowed: bool) -> None:
    rows = [Rows(first, 1000, KEYS) for first in range(0, 250_000, 1000)]  # 25 s of event time
    expected = Tally.of_input(rows, KEYS, windowed=windowed)
    found = Tally(KEYS)
    slots = np.flatnonzero(expected.counts)
    columns = {"key": slots % KEYS, "n": expected.counts[slots], "sum": expected.sums[slots]}
    if windowed:
        assert len(expected.counts) == 3 * KEYS
        columns["starts"] = pa.array(FIRST_US + slots // KEYS * WINDOW_S * 1_000_000, pa.timestamp("us", "UTC"))
    found.apply(pa.table(columns))
    assert found.differing(expected) == 0 and found.above(expected) == 0
    found.sums[KEYS - 1] += 1
    assert found.differing(expected) == 1 and found.above(expected) == 1
    found.sums[KEYS - 1] -= 2
    assert found.differing(expected) == 1 and found.above(expected) == 0


def test_a_key_that_is_missing_or_too_many_differs() -> None:
    expected = Tally.of_input([Rows(0, 1000, KEYS)], KEYS, windowed=False)
    assert Tally(KEYS).differing(expected) == np.count_nonzero(expected.counts)
    more = Tally.of_input([Rows(0, 1000, KEYS)], KEYS, windowed=False)
    more.apply(epoch([KEYS + 3], [1], [1]))
    assert more.differing(expected) == 1 and more.above(expected) == 1
