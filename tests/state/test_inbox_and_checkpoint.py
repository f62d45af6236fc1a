"""The inbox feeds a query claim by claim, and its checkpoint can be forked while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.errors import BrokenInvariant, SegmentDamaged
from rekindle.home import Home, create_or_open
from rekindle.keeper.records import Epoch, EpochNumber, Incarnation, Output, Segment
from rekindle.node.traits import streaming_frame
from rekindle.state import checkpoint
from rekindle.state.inbox import Inbox
from rekindle.streams.segments import checksum
from rekindle.streams.writer import segment_name

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
DDL = "k long, v long"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_or_open(tmp_path / "home", "p", None)


def published(home: Home, stream: str, epoch: int, rows: list[tuple[int, int]]) -> Epoch:
    """An epoch with one segment, as a keeper would have it on record."""
    folder = home.streams / stream / f"{epoch:012d}-1-1"
    folder.mkdir(parents=True)
    path = folder / segment_name(epoch, 0)
    pq.write_table(pa.table({"k": [r[0] for r in rows], "v": [r[1] for r in rows]}, schema=SCHEMA), path)
    segment = Segment(str(path.relative_to(home.root)), len(rows), path.stat().st_size, checksum(path))
    output = Output((segment,), len(rows), segment.bytes, "0:0:0")
    return Epoch(stream, EpochNumber(epoch), stream, output, Incarnation(1), 0.0)


class Query:
    """A keyed sum over inputs ``a`` and ``b``, run as a replica runs its fragment, up to ``last``."""

    output_mode = "update"

    def __init__(self, spark: SparkSession, root: Path, home: Home, claim: Callable[[int], dict[str, list[Epoch]]]):
        self.spark, self.root, self.home, self.claim = spark, root, home, claim
        self.inbox = Inbox(root, {"a": SCHEMA, "b": SCHEMA}, lambda: 1.7e9)
        self.checkpoint = root / "checkpoint"
        self.seen: dict[int, dict[int, int]] = {}

    def run(self, first: int, last: int) -> dict[int, dict[int, int]]:
        checkpoint.relocate(self.checkpoint)
        self.show(first)
        frames = [streaming_frame(self.spark, DDL, self.inbox.glob(name)) for name in ("a", "b")]  # type: ignore[arg-type]
        result = self.result(frames)

        def batch(rows: DataFrame, number: int) -> None:
            epoch = checkpoint.epoch_of(self.checkpoint, number)
            self.seen[epoch] = {r["k"]: r["total"] for r in rows.collect()}
            self.inbox.retire(epoch)
            checkpoint.trim_source_logs(self.checkpoint, epoch)
            if epoch < last:
                self.show(epoch + 1)

        query = (
            result.writeStream.outputMode(self.output_mode)
            .option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(batch)
            .start()
        )
        try:
            while checkpoint.standing(self.checkpoint).epoch < last:
                if not query.isActive:
                    error = query.exception()
                    raise AssertionError(f"the query ended: {error}")
        finally:
            query.stop()
        return self.seen

    def result(self, frames: list[DataFrame]) -> DataFrame:
        return frames[0].union(frames[1]).groupBy("k").agg(F.sum("v").alias("total"))

    def show(self, epoch: int) -> None:
        self.inbox.show(EpochNumber(epoch), self.home, self.claim(epoch))


def claims_of(home: Home, last: int) -> Callable[[int], dict[str, list[Epoch]]]:
    """Epoch e takes in one epoch of ``a`` and, if e is even, one of ``b``; every fifth takes in nothing."""
    made = {
        e: {
            "a": [published(home, "a", e, [(e % 3, e), (7, 1)])],
            "b": [published(home, "b", e, [(7, 100)])] if e % 2 == 0 else [],
        }
        if e % 5
        else {}
        for e in range(1, last + 1)
    }
    return lambda epoch: made[epoch]


def expected(last: int) -> dict[int, dict[int, int]]:
    totals: dict[int, int] = {}
    outputs: dict[int, dict[int, int]] = {}
    for e in range(1, last + 1):
        rows = [(e % 3, e), (7, 1)] + ([(7, 100)] if e % 2 == 0 else []) if e % 5 else []
        for k, v in rows:
            totals[k] = totals.get(k, 0) + v
        outputs[e] = {k: totals[k] for k, _ in rows}
    return outputs


def test_batches_are_the_claims_and_a_fork_goes_on_from_what_is_committed(
    spark: SparkSession, home: Home, tmp_path: Path
) -> None:
    claim = claims_of(home, 24)
    first = Query(spark, tmp_path / "first", home, claim)
    checkpoint.create(first.checkpoint, EpochNumber(0))
    assert first.run(1, 22) == {e: rows for e, rows in expected(24).items() if e <= 22}

    log = first.checkpoint / "sources" / "0" / "19.compact"
    assert {json.loads(line)["batchId"] for line in log.read_text().splitlines()[1:]} == {19}

    second = Query(spark, tmp_path / "second", home, claim)
    assert checkpoint.fork(first.checkpoint, second.checkpoint) == checkpoint.Standing(21, EpochNumber(22))
    assert second.run(23, 24) == {e: rows for e, rows in expected(24).items() if e > 22}


def test_a_fork_leaves_out_what_was_begun_and_not_committed(spark: SparkSession, home: Home, tmp_path: Path) -> None:
    claim = claims_of(home, 8)
    first = Query(spark, tmp_path / "first", home, claim)
    checkpoint.create(first.checkpoint, EpochNumber(0))
    first.run(1, 6)
    (first.checkpoint / "commits" / "5").unlink()  # as a process leaves it that dies between publish and commit
    second = Query(spark, tmp_path / "second", home, claim)
    assert checkpoint.fork(first.checkpoint, second.checkpoint).epoch == 5
    assert not (second.checkpoint / "offsets" / "5").exists()
    assert not list((second.checkpoint / "state").rglob("6.changelog"))
    assert second.run(6, 8) == {e: rows for e, rows in expected(8).items() if e >= 6}


def test_sources_that_disagree_are_found(tmp_path: Path) -> None:
    checkpoint.create(tmp_path / "c", EpochNumber(40))
    (tmp_path / "c" / "offsets").mkdir()
    (tmp_path / "c" / "offsets" / "3").write_text('v1\n{}\n{"logOffset":2}\n{"logOffset":2}')
    assert checkpoint.epoch_of(tmp_path / "c", 3) == 43
    (tmp_path / "c" / "offsets" / "3").write_text('v1\n{}\n{"logOffset":2}\n{"logOffset":1}')
    with pytest.raises(BrokenInvariant, match="do not stand at the same epoch"):
        checkpoint.epoch_of(tmp_path / "c", 3)


def test_a_damaged_segment_is_found_before_it_is_shown(home: Home, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "r", {"a": SCHEMA}, lambda: 1.7e9)
    record = published(home, "a", 1, [(1, 1)])
    path = home.root / record.output.segments[0].path
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-20] ^= 1  # in the footer, which Parquet does not protect by a checksum
    path.write_bytes(flipped)
    with pytest.raises(SegmentDamaged, match="its checksum is"):
        inbox.show(EpochNumber(3), home, {"a": [record]})
    path.write_bytes(content[:-1])
    with pytest.raises(SegmentDamaged, match="published were"):
        inbox.show(EpochNumber(1), home, {"a": [record]})
    path.unlink()
    with pytest.raises(SegmentDamaged, match="missing"):
        inbox.show(EpochNumber(2), home, {"a": [record]})
    assert not list((tmp_path / "r" / "inbox").iterdir())


def test_files_never_look_older_than_the_ones_shown_before(home: Home, tmp_path: Path) -> None:
    """Spark's file source ignores files much older than the newest it has seen: a clock set back must not matter."""
    times = iter([2e9, 1e9])
    inbox = Inbox(tmp_path / "r", {"a": SCHEMA}, lambda: next(times))
    for epoch in (1, 2):
        inbox.show(EpochNumber(epoch), home, {"a": [published(home, "a", epoch, [(1, 1)])]})
    shown = [f.stat().st_mtime for f in sorted((tmp_path / "r" / "inbox").rglob("*.parquet"))]
    assert shown == [2e9, 2e9]
