"""Event times as the footers of segments tell them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.streams.footers import EventTimes, bounds, event_times

SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def footer(folder: Path, columns: dict[str, pa.Array], **options: Any) -> pq.FileMetaData:
    pq.write_table(pa.table(columns), folder / "x.parquet", **options)
    return pq.read_metadata(folder / "x.parquet")


def instants(seconds: Sequence[float | None], unit: str = "us", zone: str | None = "UTC") -> pa.Array:
    values = [None if s is None else int(s * SECOND[unit]) for s in seconds]
    return pa.array(values, pa.timestamp(unit, zone))


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("groups", [1, 2, 100])
def test_bounds_over_units_and_row_groups(tmp_path: Path, unit: str, groups: int) -> None:
    found = footer(tmp_path, {"ts": instants([3, None, -1.5, 2, 7], unit)}, row_group_size=groups)
    assert event_times(found) == EventTimes(-1_500_000, 7_000_000)


def test_nanoseconds_are_cut_down_as_spark_does(tmp_path: Path) -> None:
    assert event_times(footer(tmp_path, {"ts": pa.array([-1, 1999], pa.timestamp("ns", "UTC"))})) == EventTimes(-1, 1)


def test_the_first_timestamp_at_the_top_counts(tmp_path: Path) -> None:
    columns = {
        "inside": pa.array([{"ts": 9}], pa.struct([("ts", pa.timestamp("us", "UTC"))])),
        "many": pa.array([[8]], pa.list_(pa.timestamp("us", "UTC"))),
        "plain": instants([7], zone=None),
        "ts": instants([1]),
        "later": instants([2]),
    }
    assert event_times(footer(tmp_path, columns)) == EventTimes(1_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"k": pa.array([1])}, {}),
        ({"ts": instants([1], zone=None)}, {}),
        ({"ts": instants([1])}, {"write_statistics": False}),
        ({"ts": instants([1])}, {"use_deprecated_int96_timestamps": True}),
    ],
    ids=["none there", "no zone", "no statistics", "int96"],
)
def test_what_is_not_known(tmp_path: Path, columns: dict[str, pa.Array], options: dict[str, Any]) -> None:
    assert event_times(footer(tmp_path, columns, **options)) is None


def test_nulls_have_no_time(tmp_path: Path) -> None:
    assert event_times(footer(tmp_path, {"ts": instants([None, None])})) == EventTimes(None, None)


def test_several_segments() -> None:
    one, two, nulls = EventTimes(5, 9), EventTimes(-3, 6), EventTimes(None, None)
    assert bounds([one, two, nulls]) == EventTimes(-3, 9)
    assert bounds([nulls]) == bounds([]) == nulls
    assert bounds([one, None]) is None
