"""Writing an epoch, and sweeping up what was written and never published."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rekindle.home import create_or_open
from rekindle.keeper.records import EpochNumber, Incarnation, Output
from rekindle.streams.segments import checksum
from rekindle.streams.writer import EpochWriter, sweep


def test_only_what_nobody_can_publish_any_more_is_removed(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    folder = home.streams / "counts"
    dead = ["000000000003-1-1", "000000000004-1-1"]
    kept = ["000000000002-1-1", "000000000003-2-1", "000000000004-3-1", "000000000004-5-1", "000000000004-6-1"]
    for name in [*dead, *kept, "notes-by-hand"]:
        (folder / name).mkdir(parents=True)
    published = frozenset({"streams/counts/000000000003-2-1"})
    over = frozenset({Incarnation(1), Incarnation(2)})
    assert sweep(home, "counts", 3, published, over=over) == 2
    assert sorted(entry.name for entry in folder.iterdir()) == [*kept, "notes-by-hand"]


def test_two_replicas_never_write_to_one_file(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    found = []
    for incarnation, attempt in ((1, 1), (2, 1), (2, 2)):
        writer = EpochWriter(home, "s", EpochNumber(1), Incarnation(incarnation), attempt)
        writer.add_table(times(incarnation))
        found.append(writer.finish().segments[0])
    assert len({segment.path for segment in found}) == 3
    assert [checksum(home.root / segment.path) for segment in found] == [segment.checksum for segment in found]


def test_segments_are_durable_when_they_are_described(writer: EpochWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []
    fsync = os.fsync

    def seen(fd: int) -> None:
        fsync(fd)
        synced.append((os.fstat(fd).st_dev, os.fstat(fd).st_ino))

    monkeypatch.setattr(os, "fsync", seen)
    writer.add_table(times(1))
    writer.add_table(times(2))
    writer.finish()
    for path in (*writer.folder.iterdir(), writer.folder, writer.folder.parent):
        assert (path.stat().st_dev, path.stat().st_ino) in synced, path


def times(*seconds: int) -> pa.Table:
    values = [s * 1_000_000 for s in seconds]
    return pa.table({"k": list(seconds), "ts": pa.array(values, pa.timestamp("us", "UTC"))})


@pytest.fixture
def writer(tmp_path: Path) -> EpochWriter:
    return EpochWriter(create_or_open(tmp_path / "home", "p", None), "s", EpochNumber(1), Incarnation(1), 1)


def event_times(output: Output) -> tuple[int | None, int | None]:
    return output.event_time_min_us, output.event_time_max_us


def test_event_times_come_from_every_way_of_writing(spark: SparkSession, writer: EpochWriter, tmp_path: Path) -> None:
    pq.write_table(times(7, 30), tmp_path / "copied.parquet")
    writer.add_table(times(8, 9))
    writer.add_parquet(tmp_path / "copied.parquet")
    writer.add_table(times())
    writer.add_frame(spark.range(5, 7).selectExpr("id AS k", "timestamp_seconds(id) AS ts").repartition(2))
    assert event_times(writer.finish()) == (5_000_000, 30_000_000)


def test_event_times_are_not_known_if_those_of_one_segment_are_not(writer: EpochWriter, tmp_path: Path) -> None:
    pq.write_table(times(7), tmp_path / "copied.parquet", write_statistics=False)
    writer.add_table(times(8))
    writer.add_parquet(tmp_path / "copied.parquet")
    assert event_times(writer.finish()) == (None, None)


def test_what_has_no_timestamps_or_no_rows_has_no_event_times(writer: EpochWriter) -> None:
    assert event_times(writer.finish()) == (None, None)
    writer.folder.mkdir()
    writer.add_table(pa.table({"reason": ["r"]}))
    assert event_times(writer.finish()) == (None, None)
