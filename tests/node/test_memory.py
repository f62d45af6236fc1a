"""How far back a state reaches, read from Spark's plans; and a real query that is started again from there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

import rekindle as rk
from rekindle.errors import DeclarationError
from rekindle.home import Home, create_or_open
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EMPTY_DIGEST, EpochNumber, Output, Span, StreamRecord
from rekindle.node.traits import Analysis, analyse, run_operators, streaming_frame
from rekindle.recovery.memory import NOTHING, Memory, oldest_needed
from rekindle.state import checkpoint
from rekindle.state.inbox import Inbox
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.writer import EpochWriter

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

SCHEMA = StructType().add("ts", TimestampType()).add("k", LongType()).add("line", StringType())
SECOND = 1_000_000
Build = Callable[[DataFrame, DataFrame], Any]


def analysed(spark: SparkSession, folder: Path, build: Build, mode: str = "append") -> Analysis:
    pipeline = rk.Pipeline("p", recovery=rk.UpstreamBackup())
    for source in ("s", "t"):
        pipeline.source(source, rk.sources.Rate(1))

    @pipeline.stream(output_mode=mode)
    def o(s: DataFrame, t: DataFrame) -> Any:
        return build(s, t)

    return analyse(pipeline, spark, {"s": SCHEMA, "t": SCHEMA}, folder)


def timed(frame: DataFrame, column: str = "ts") -> DataFrame:
    return frame.withWatermark(column, "10 seconds")


def joined(condition: str, how: str = "inner") -> Build:
    def build(s: DataFrame, t: DataFrame) -> DataFrame:
        right = timed(t).select(F.col("ts").alias("at"), F.col("k").alias("of"), "line")
        return timed(s).select("ts", "k").join(right, F.expr(f"k = of AND {condition}"), how)

    return build


def windows(s: DataFrame, length: str, slide: str | None = None) -> DataFrame:
    return timed(s).select(F.window("ts", length, slide).alias("w"), "k")


BETWEEN = "at BETWEEN ts - INTERVAL 3 SECONDS AND ts + INTERVAL 5 SECONDS"


@pytest.mark.parametrize(
    ("build", "mode", "inputs", "span_us"),
    [
        (lambda s, t: timed(s).groupBy(F.window("ts", "5 seconds"), "k").count(), "append", "s", 5 * SECOND),
        (lambda s, t: timed(s).filter("k > 1").groupBy(F.window("ts", "5 seconds")).count(), "update", "s", 5 * SECOND),
        (lambda s, t: windows(s, "6 seconds", "4 seconds").groupBy("w").count(), "append", "s", 6 * SECOND),
        (lambda s, t: timed(s.withColumnRenamed("ts", "x"), "x").groupBy(F.window("x", "1 day")).count(), "append", "s",
         86_400 * SECOND),
        (lambda s, t: timed(s.union(t)).groupBy(F.window("ts", "5 seconds")).count(), "append", "st", 5 * SECOND),
        (lambda s, t: timed(s).union(timed(t)).groupBy(F.window("ts", "9 seconds")).count(), "append", "st",
         9 * SECOND),
        (lambda s, t: timed(s).select("ts", F.explode(F.split("line", " ")).alias("word"))
         .groupBy(F.window("ts", "5 seconds"), "word").count(), "append", "s", 5 * SECOND),
        (lambda s, t: timed(s).join(s.sparkSession.range(9).withColumnRenamed("id", "k"), "k")
         .groupBy(F.window("ts", "5 seconds")).count(), "append", "s", 5 * SECOND),
        (lambda s, t: timed(s).where("ts IS NOT NULL").groupBy("ts", "k").count(), "append", "s", 0),
        (lambda s, t: timed(s.where("ts IS NOT NULL")).dropDuplicates(["ts", "k"]), "append", "s", 0),
        (joined(BETWEEN), "append", "st", 5_001_000),
        (joined(BETWEEN, "left"), "append", "st", 8_002_000),
        (joined(BETWEEN, "full"), "append", "st", 8_002_000),
        (joined(BETWEEN, "left_semi"), "append", "st", 8_002_000),
        (joined("at BETWEEN ts + INTERVAL 10 SECONDS AND ts + INTERVAL 20 SECONDS"), "append", "st", 20_001_000),
        (lambda s, t: joined("true")(s, t).where("at BETWEEN ts AND ts + INTERVAL 1 MINUTE"), "append", "st",
         60_001_000),
        (joined("at = ts"), "append", "st", 0),
        (joined("at = ts", "left"), "append", "st", 0),
        (lambda s, t: windows(s, "5 seconds").join(windows(t, "5 seconds"), ["w", "k"]), "append", "st", 5 * SECOND),
    ],
)  # fmt: skip
def test_memories(spark: SparkSession, tmp_path: Path, build: Build, mode: str, inputs: str, span_us: int) -> None:
    found = analysed(spark, tmp_path, build, mode).memories["o"]
    assert (found.inputs, found.span_us) == (frozenset(inputs), span_us)


def test_how_many_watermarks_there_are(spark: SparkSession, tmp_path: Path) -> None:
    assert analysed(spark, tmp_path, joined(BETWEEN)).memories["o"].watermarks == 2
    assert (
        analysed(spark, tmp_path, lambda s, t: windows(s, "1 day").groupBy("w").count()).memories["o"].watermarks == 1
    )


def test_without_state_there_is_nothing_to_replay(spark: SparkSession, tmp_path: Path) -> None:
    assert analysed(spark, tmp_path, lambda s, t: s.filter("k > 1")).memories == {"o": NOTHING}


def test_a_watermark_that_a_stream_hands_on_counts(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = rk.Pipeline("p", recovery=rk.UpstreamBackup())
    pipeline.source("s", rk.sources.Rate(1))

    @pipeline.stream(keep=True)
    def bought(s: DataFrame) -> DataFrame:
        return timed(s).filter("line = 'bought'")

    @pipeline.stream
    def counted(bought: DataFrame) -> DataFrame:
        return bought.groupBy(F.window("ts", "5 seconds")).count()

    found = analyse(pipeline, spark, {"s": SCHEMA}, tmp_path).memories
    assert found == {"bought": NOTHING, "counted": Memory(frozenset({"bought"}), 5 * SECOND, 1)}


def test_only_where_the_policy_asks(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = rk.Pipeline("p")
    pipeline.source("s", rk.sources.Rate(1))

    @pipeline.stream(output_mode="update")
    def o(s: DataFrame) -> DataFrame:
        return s.groupBy("k").count()

    assert analyse(pipeline, spark, {"s": SCHEMA}, tmp_path).memories == {}


@pytest.mark.parametrize(
    ("build", "mode", "reason"),
    [
        (lambda s, t: s.groupBy(F.window("ts", "5 seconds")).count(), "update", "no event time under a watermark"),
        (lambda s, t: timed(s).groupBy("k").count(), "update", "no event time under a watermark"),
        (lambda s, t: timed(s).groupBy(F.date_trunc("hour", "ts")).count(), "update",
         "no event time under a watermark"),
        (lambda s, t: timed(s).groupBy(F.window("ts", "5 seconds")).count(), "complete", "complete mode"),
        (lambda s, t: timed(s).groupBy("ts").count(), "append", "'ts' may be null"),
        (lambda s, t: timed(s).dropDuplicates(["ts", "k"]), "append", "'ts' may be null"),
        (lambda s, t: timed(s).dropDuplicates(["k"]), "append", "no event time under a watermark"),
        (lambda s, t: timed(s).dropDuplicatesWithinWatermark(["k"]), "append", "no longest chain"),
        (lambda s, t: timed(s).groupBy(F.session_window("ts", "5 seconds"), "k").count(), "append", "session window"),
        (lambda s, t: s.limit(3), "append", "limit counts rows"),
        (lambda s, t: windows(s, "5 seconds").groupBy("w").count().groupBy(F.window("w", "1 day")).count(), "append",
         "more than one state"),
        (lambda s, t: timed(s.withColumn("x", F.expr("ts + INTERVAL 1 HOUR")), "x").groupBy(F.window("x", "1 day"))
         .count(), "append", "'x', which is computed"),
        (lambda s, t: timed(s).groupBy("k").applyInPandasWithState(
            lambda key, rows, state: rows, "k long", "n long", "append", "EventTimeTimeout"), "append", "its own code"),
        (lambda s, t: joined("true")(s, t), "append", "how long 'ts' of its left side is waited for"),
        (joined("at >= ts"), "append", "how long 'ts' of its left side is waited for"),
        (joined("at <= ts"), "append", "how long 'at' of its right side is waited for"),
        (lambda s, t: timed(s).join(t.select(F.col("ts").alias("at"), F.col("k").alias("of")), F.expr(
            f"k = of AND {BETWEEN}")), "append", "right side of the join has no event time"),
        (lambda s, t: windows(s, "5 seconds").join(windows(t, "9 seconds"), ["w", "k"]), "append", "two lengths"),
    ],
)  # fmt: skip
def test_what_is_refused(spark: SparkSession, tmp_path: Path, build: Build, mode: str, reason: str) -> None:
    with pytest.raises(DeclarationError, match="stream 'o' cannot have upstream backup") as caught:
        analysed(spark, tmp_path, build, mode)
    assert reason in caught.value.detail and "test_memory.py:" in caught.value.detail
    assert caught.value.hint


def test_the_watermark_must_be_on_the_event_time_on_record(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = rk.Pipeline("p", recovery=rk.UpstreamBackup())
    pipeline.source("s", rk.sources.Rate(1))

    @pipeline.stream
    def o(s: DataFrame) -> DataFrame:
        return timed(s, "second").groupBy(F.window("second", "5 seconds")).count()

    with pytest.raises(DeclarationError) as caught:
        analyse(pipeline, spark, {"s": SCHEMA.add("second", TimestampType())}, tmp_path)
    assert "the watermark is on 'second' of 's', whose event time on record is 'ts'" in caught.value.detail


# -- a real query ----------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_or_open(tmp_path / "home", "p", None)


@pytest.fixture
def keeper(home: Home) -> Iterator[Keeper]:
    opened = open_keeper(None, home=home)
    yield opened
    opened.close()


class Replica:
    """Runs fragment ``o`` over its claims, one a batch; the first one also publishes each epoch's watermark."""

    def __init__(self, spark: SparkSession, home: Home, keeper: Keeper, analysis: Analysis, base: int) -> None:
        (self._fragment,) = analysis.fragments
        self._keeper, self._home, self._by = keeper, home, keeper.enlist("n", code="")
        self._root = home.work / "o" / str(self._by)
        self._checkpoint = self._root / "checkpoint"
        checkpoint.create(self._checkpoint, EpochNumber(base))
        self._inbox = Inbox(self._root, dict.fromkeys("st", arrow_schema(SCHEMA)), lambda: 2e9)
        self._spark = spark.newSession()
        self._next = base + 1
        self._over = threading.Event()
        self.epochs: dict[int, Counter[str]] = {}

    def run(self) -> dict[int, Counter[str]]:
        self._show()
        frames = {i: streaming_frame(self._spark, SCHEMA, self._inbox.glob(i)) for i in "st"}
        writer = run_operators(self._fragment, frames).writeStream.outputMode(self._fragment.output_mode)
        query = writer.option("checkpointLocation", str(self._checkpoint)).foreachBatch(self._batch).start()
        try:
            while not self._over.wait(0.1) or checkpoint.standing(self._checkpoint).epoch < self._next - 1:
                assert query.isActive, query.exception()
        finally:
            query.stop()
        return self.epochs

    def _batch(self, rows: DataFrame, batch: int) -> None:
        epoch = checkpoint.epoch_of(self._checkpoint, batch)
        self.epochs[epoch] = Counter(str(row) for row in rows.collect())
        watermark_us = checkpoint.watermark_us(self._checkpoint, batch)
        output = Output((), 0, 0, EMPTY_DIGEST, watermark_us=watermark_us)
        self._keeper.publish("o", epoch, {"o": output}, by=self._by)
        self._next += 1
        self._show()

    def _show(self) -> None:
        epoch = EpochNumber(self._next)
        claim = self._keeper.claim_of("o", epoch)
        if claim is None:
            self._over.set()
            return
        spans = claim.spans.items()
        self._inbox.show(
            epoch, self._home, {i: self._keeper.epochs(i, after=s.after, through=s.through) for i, s in spans}
        )


def lay_out(home: Home, keeper: Keeper, epochs: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]) -> None:
    """Each epoch's rows of s and of t, as (second, k), published and claimed by ``o`` one by one."""
    by = keeper.enlist("m", code="")
    for name, inputs in (("s", ()), ("t", ()), ("o", ("s", "t"))):
        keeper.record_stream(StreamRecord(name, name, SCHEMA.json(), inputs, "precise"))
    for e, rows in enumerate(epochs, start=1):
        epoch = EpochNumber(e)
        for name, own in zip("st", rows, strict=True):
            writer = EpochWriter(home, name, epoch, by, 1)
            table = {
                "ts": pa.array([second * SECOND for second, _ in own], pa.timestamp("us", "UTC")),
                "k": pa.array([k for _, k in own], pa.int64()),
                "line": pa.array(["x"] * len(own), pa.string()),
            }
            writer.add_table(pa.table(table))
            keeper.claim(name, epoch, {"outside": Span(e - 1 or None, e)}, by=by)
            keeper.publish(name, epoch, {name: writer.finish()}, by=by)
        keeper.claim("o", epoch, {"s": Span(e - 1, e), "t": Span(e - 1, e)}, by=by)


def moving_on(epoch: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Ten seconds an epoch, with late rows. What runs far ahead is filtered out, also below the watermark."""
    now = 1000 + epoch * 10
    s = [(now, 1), (now - 7, 2), (now - 14, 1), (now - 35, 2)]
    t = [(now - 2, 1), (now - 9, 2), (now - 30, 1)]
    ahead = [(now + 500, 9)] if epoch == 7 else []
    return s + ahead, t + ahead


def sliding(s: DataFrame, t: DataFrame) -> DataFrame:
    return timed(s.union(t)).filter("k < 9").groupBy(F.window("ts", "20 seconds", "10 seconds"), "k").count()


def outer(s: DataFrame, t: DataFrame) -> Any:
    return joined(BETWEEN, "left")(s.filter("k < 9"), t.filter("k < 9"))


@pytest.mark.parametrize(("build", "mode"), [(sliding, "append"), (sliding, "update"), (outer, "append")])
def test_a_real_query_started_empty_goes_on_like_the_original(
    spark: SparkSession, home: Home, keeper: Keeper, tmp_path: Path, build: Build, mode: str
) -> None:
    analysis = analysed(spark, tmp_path, build, mode)
    lay_out(home, keeper, [moving_on(e) for e in range(1, 13)])
    original = Replica(spark, home, keeper, analysis, 0).run()
    head = EpochNumber(8)
    first = oldest_needed(keeper, "o", analysis.memories["o"], head)
    assert 1 < first < head
    replayed = Replica(spark, home, keeper, analysis, first - 1).run()
    assert sorted(replayed) == list(range(first, 13))
    for epoch in range(head + 1, 13):
        assert replayed[epoch] == original[epoch] and original[epoch]
    too_late = Replica(spark, home, keeper, analysis, head - 1).run()
    assert any(too_late[epoch] != original[epoch] for epoch in range(head + 1, 13))
