"""Published streams, read by any Spark session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType, TimestampType

from rekindle.home import Home, create_or_open
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span, StreamRecord
from rekindle.streams.writer import EpochWriter

FOREIGN = Path(__file__).with_name("foreign.py")
SCHEMA = StructType().add("v", LongType()).add("ts", TimestampType())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_or_open(tmp_path / "home", "p", None)


@pytest.fixture
def keeper(home: Home) -> Iterator[Keeper]:
    opened = open_keeper(None, home=home)
    opened.record_stream(StreamRecord("s", "s", SCHEMA.json(), (), "precise"))
    yield opened
    opened.close()


def publish(home: Home, keeper: Keeper, by: Incarnation, epoch: int, *segments: list[int]) -> None:
    number = EpochNumber(epoch)
    writer = EpochWriter(home, "s", number, by, 1)
    for values in segments:
        times = pa.array([v * 1_000_000 for v in values], pa.timestamp("us", "UTC"))
        writer.add_table(pa.table({"v": values, "ts": times}))
    keeper.claim("s", number, {"s": Span(epoch - 1 or None, epoch)}, by=by)
    keeper.publish("s", number, {"s": writer.finish()}, by=by)


def values(spark: SparkSession, home: Home, **options: str) -> list[int]:
    reader = spark.read.format("rekindle").option("home", str(home.root)).option("stream", "s")
    return sorted(row["v"] for row in reader.options(**options).load().collect())


def test_a_stream_is_read_whole_and_as_of_an_epoch(spark: SparkSession, home: Home, keeper: Keeper) -> None:
    by = keeper.enlist("n", code="c")
    publish(home, keeper, by, 1, [1, 2], [3])
    publish(home, keeper, by, 2)
    publish(home, keeper, by, 3, [4])
    assert values(spark, home) == [1, 2, 3, 4]
    assert values(spark, home, epoch="2") == [1, 2, 3]
    assert values(spark, home, from_epoch="1") == [4]
    assert values(spark, home, epoch="0") == []


def test_positions(spark: SparkSession, home: Home, keeper: Keeper) -> None:
    publish(home, keeper, keeper.enlist("n", code="c"), 1, [10, 11], [12])
    rows = (
        spark.read.format("rekindle")
        .options(home=str(home.root), stream="s", positions="true")
        .load()
        .orderBy("_epoch", "_segment", "_index")
        .collect()
    )
    assert [(r["v"], r["_epoch"], r["_segment"], r["_index"]) for r in rows] == [
        (10, 1, 0, 0),
        (11, 1, 0, 1),
        (12, 1, 1, 0),
    ]


def test_a_query_follows_a_stream(spark: SparkSession, home: Home, keeper: Keeper, tmp_path: Path) -> None:
    by = keeper.enlist("n", code="c")
    publish(home, keeper, by, 1, [1, 2])
    frame = spark.readStream.format("rekindle").options(home=str(home.root), stream="s").load()
    writer = frame.writeStream.format("memory").queryName("followed").option("checkpointLocation", str(tmp_path / "c"))
    query = writer.start()
    try:
        query.processAllAvailable()
        publish(home, keeper, by, 2, [3])
        query.processAllAvailable()
        assert sorted(r["v"] for r in spark.table("followed").collect()) == [1, 2, 3]
    finally:
        query.stop()


def test_a_session_of_somebody_else_reads_what_is_kept_and_follows(home: Home, keeper: Keeper, tmp_path: Path) -> None:
    by = keeper.enlist("n", code="c")
    for epoch, rows in enumerate(([1, 2], [3], [4, 5]), 1):
        publish(home, keeper, by, epoch, rows)
    keeper.trim_epochs("s", EpochNumber(2), by=by)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REKINDLE")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, str(FOREIGN), str(home.root), str(tmp_path)],
        env=environment | {"PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        told = (json.loads(line.removeprefix("TOLD ")) for line in process.stdout if line.startswith("TOLD "))
        assert [next(told), next(told), next(told)] == [[3, 4, 5], [3], [4, 5]]
        assert "epoch 1 of stream 's' is not kept any more" in next(told)
        assert next(told) == [3, 4, 5]
        publish(home, keeper, by, 4, [6])
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert [next(told), next(told)] == [[6], [3, 4, 5, 6]]
        assert next(told) is False
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream": "nope"}, "no stream 'nope'"),
        ({"stream": "s", "epoch": "9"}, "no epoch 9 yet"),
        ({"stream": "s", "epoch": "last"}, "must be a whole number"),
    ],
)
def test_what_is_not_there(
    spark: SparkSession, home: Home, keeper: Keeper, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.read.format("rekindle").option("home", str(home.root)).options(**options).load()


def test_the_home_on_record_names_no_machine(home: Home, keeper: Keeper) -> None:
    """Segments are on record by paths inside the home, so a home can be moved."""
    publish(home, keeper, keeper.enlist("n", code="c"), 1, [1])
    record = keeper.epoch("s", EpochNumber(1))
    assert record is not None
    assert str(home.root) not in json.dumps([s.to_json() for s in record.output.segments])
