"""Every kind of operation, through the real workers of one node, compared with a batch job over the same rows.

No process dies here (see tests/faults); what is shown is that what a stream holds is what Spark computes.
"""

from __future__ import annotations

import functools
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import rekindle as rk
from rekindle.home import Home, create_or_open
from rekindle.keeper import Keeper, open_keeper
from rekindle.node.ownership import Ownership
from rekindle.node.process import record_streams, source_schemas, workers_of
from rekindle.node.steps import Steps
from rekindle.node.traits import analyse
from rekindle.node.worker import Context
from rekindle.plan import check
from rekindle.recovery import Policy
from rekindle.streams.segments import read_table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 600
PATIENCE_S = 150.0


class Total(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        before = self._total.get()
        total = (before[0] if before else 0) + sum(len(frame) for frame in rows)
        self._total.update((total,))
        yield pd.DataFrame({"key": [key[0]], "n": [total]})

    def close(self) -> None:
        pass


class Node:
    """The workers of one node, in this process."""

    def __init__(self, pipeline: rk.Pipeline, home: Home, keeper: Keeper, spark: SparkSession, folder: Path) -> None:
        check(pipeline)
        self.keeper, self.home = keeper, home
        analysis = analyse(pipeline, spark, source_schemas(pipeline, spark), folder)
        record_streams(keeper, pipeline, analysis)
        incarnation, stopping = keeper.enlist("main", code="c"), threading.Event()
        self.context = Context(
            pipeline=pipeline,
            home=home,
            keeper=keeper,
            incarnation=incarnation,
            spark=spark,
            cores=2,
            analysis=analysis,
            steps=Steps(),
            clock=time.time,
            monotonic=time.monotonic,
            die=self._die,
            jvm_alive=lambda: True,
            ownership=Ownership(keeper, incarnation, stopping, self._die),
            stopping=stopping,
        )
        self.workers = workers_of(self.context, "main")
        self.context.ownership.start("main", {worker.subject: worker.owned for worker in self.workers})

    def _die(self, error: BaseException) -> NoReturn:
        raise AssertionError("the node would end") from error

    def run_until(self, done: Callable[[], bool], *, may_fail: bool = False) -> None:
        for worker in self.workers:
            worker.start()
        limit = time.monotonic() + PATIENCE_S
        try:
            while not done():
                failures = self.keeper.failures()
                assert may_fail or not failures, failures[0].traceback
                assert time.monotonic() < limit, {s: e.epoch for s, e in self.keeper.heads().items()}
                time.sleep(0.05)
        finally:
            self.context.stopping.set()
            assert all(worker.join(60) for worker in self.workers)

    def rows(self, stream: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_table(self.home, self.keeper.epochs(stream, after=0)).to_pylist()
        return found

    def consumed(self, *fragments: str) -> bool:
        """Whether these fragments have published an epoch that takes in all rows of both generators."""
        heads = self.keeper.heads()
        if any(sum(e.output.rows for e in self.keeper.epochs(s, after=0)) < ROWS for s in ("a", "b")):
            return False
        for fragment in fragments:
            claim = self.keeper.last_claim(fragment)
            if claim is None or fragment not in heads or heads[fragment].epoch < claim.epoch:
                return False
            for name in claim.spans.keys() & {"a", "b"}:
                if claim.spans[name].through < heads[name].epoch:
                    return False
        return True


@pytest.fixture
def keeper_and_home(tmp_path: Path) -> Iterator[tuple[Keeper, Home]]:
    home = create_or_open(tmp_path / "home", "p", None)
    keeper = open_keeper(None, home=home)
    yield keeper, home
    keeper.close()


def as_batch(node: Node, spark: SparkSession, name: str) -> DataFrame:
    """The rows of a source's stream, for a batch job."""
    return spark.read.format("rekindle").options(home=str(node.home.root), stream=name).load()


def multiset(rows: list[Any]) -> Counter[str]:
    return Counter(repr(sorted((row if isinstance(row, dict) else row.asDict(recursive=True)).items())) for row in rows)


def test_every_kind_of_operation(
    spark: SparkSession, keeper_and_home: tuple[Keeper, Home], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper, home = keeper_and_home
    pipeline = rk.Pipeline("p")
    for seed, name in enumerate(("a", "b")):
        source = rk.sources.Rate(1000, keys=20, seed=seed, start=START, limit=ROWS)
        pipeline.source(name, source, rows_max=150)

    @pipeline.stream(output_mode="update", rows_max=150)
    def counts(a: DataFrame) -> DataFrame:
        return a.groupBy("key").agg(F.count("*").alias("n"), F.avg("value").alias("mean"))

    @pipeline.stream(rows_max=150)
    def both(a: DataFrame, b: DataFrame) -> DataFrame:
        return a.union(b).select("key", "value")

    @pipeline.stream(rows_max=150)
    def pairs(b: DataFrame) -> DataFrame:
        left, right = b.select("seq", "key").alias("l"), b.select("seq", "key").alias("r")
        return left.join(right, F.expr("l.seq = r.seq")).select("l.seq", "r.key")

    @pipeline.stream(rows_max=150)
    def matched(b: DataFrame, a: DataFrame) -> DataFrame:
        early, late = a.withWatermark("ts", "5 seconds").alias("x"), b.withWatermark("ts", "5 seconds").alias("y")
        near = "x.key = y.key and y.ts between x.ts and x.ts + interval 50 milliseconds"
        return late.join(early, F.expr(near)).select(F.col("x.seq").alias("sa"), F.col("y.seq").alias("sb"))

    @pipeline.stream(rows_max=150)
    def firsts(a: DataFrame) -> DataFrame:
        return a.select("key").dropDuplicates(["key"])

    @pipeline.stream(rows_max=150)
    def named(a: DataFrame) -> DataFrame:
        names = a.sparkSession.createDataFrame([(k, f"name {k}") for k in range(10)], "key long, name string")
        return a.withColumn("at", rk.position()).join(names, "key", "left").select("seq", "name", "at")

    @pipeline.stream(rows_max=150)
    def sessions(a: DataFrame) -> DataFrame:
        return (
            a.withWatermark("ts", "0 seconds")
            .groupBy(F.session_window("ts", "20 milliseconds").alias("w"), "key")
            .agg(F.count("*").alias("n"))
            .select(F.col("w.start").alias("start"), F.col("w.end").alias("end"), "key", "n")
        )

    @pipeline.stream(output_mode="update", rows_max=150)
    def totals(a: DataFrame) -> DataFrame:
        return a.groupBy("key").transformWithStateInPandas(Total(), "key long, n long", "Update", "None")

    taken: list[tuple[str, pa.Table]] = []
    pipeline.sink("both", rk.sinks.Foreach(lambda rows, key: taken.append((key, rows))))
    pipeline.sink("firsts", rk.sinks.Console())
    node = Node(pipeline, home, keeper, spark, tmp_path)
    fragments = ("counts", "both", "pairs", "matched", "firsts", "named", "sessions", "totals")

    def done() -> bool:
        delivered = keeper.delivered("both_sink") == keeper.head("both") and keeper.delivered("firsts_sink") > 0
        return node.consumed(*fragments) and delivered

    node.run_until(done)
    a, b = as_batch(node, spark, "a"), as_batch(node, spark, "b")
    assert keeper.head("counts") > 2  # otherwise state was never used

    final = {row["key"]: (row["n"], round(row["mean"], 6)) for row in node.rows("counts")}
    expected = a.groupBy("key").agg(F.count("*").alias("n"), F.avg("value").alias("mean")).collect()
    assert final == {row["key"]: (row["n"], round(row["mean"], 6)) for row in expected}

    assert multiset(node.rows("both")) == multiset(a.union(b).select("key", "value").collect())
    assert multiset(node.rows("pairs")) == multiset(b.select("seq", "key").collect())
    x, y = a.alias("x"), b.alias("y")
    near = F.expr("x.key = y.key and y.ts between x.ts and x.ts + interval 50 milliseconds")
    matches = y.join(x, near).select(F.col("x.seq").alias("sa"), F.col("y.seq").alias("sb")).collect()
    assert matches
    assert multiset(node.rows("matched")) == multiset(matches)
    assert sorted(row["key"] for row in node.rows("firsts")) == sorted(
        r["key"] for r in a.select("key").distinct().collect()
    )
    assert {row["key"]: row["n"] for row in node.rows("totals")} == {k: n for k, (n, _) in final.items()}

    names = {row["seq"]: row["name"] for row in node.rows("named")}
    assert names == {r["seq"]: f"name {r['key']}" if r["key"] < 10 else None for r in a.collect()}
    positions = [(at["epoch"], at["segment"], at["index"]) for at in (row["at"] for row in node.rows("named"))]
    assert len(set(positions)) == ROWS
    in_order = {r["seq"]: i for i, r in enumerate(node.rows("a"))}
    by_position = sorted(zip(positions, (row["seq"] for row in node.rows("named")), strict=True))
    assert [in_order[seq] for _, seq in by_position] == list(range(ROWS))

    newest = a.agg(F.max("ts")).collect()[0][0]
    windows = a.groupBy(F.session_window("ts", "20 milliseconds").alias("w"), "key").agg(F.count("*").alias("n"))
    closed = windows.where(F.col("w.end") <= F.lit(newest)).select("w.start", "w.end", "key", "n")
    assert {(r["key"], r["n"]) for r in node.rows("sessions")} <= {(r["key"], r["n"]) for r in windows.collect()}
    assert len(node.rows("sessions")) >= 0.5 * closed.count() > 0

    assert [key.rsplit("/", 1)[1] for key, _ in taken] == [str(e) for e in range(1, keeper.head("both") + 1)]
    assert sum(rows.num_rows for _, rows in taken) == 2 * ROWS
    assert "firsts" in capsys.readouterr().out
    assert not keeper.events(kinds=["output_differs", "epoch_retried"])


def has_rows(keeper: Keeper, stream: str, count: int) -> bool:
    return sum(e.output.rows for e in keeper.epochs(stream, after=0)) >= count


def test_any_other_spark_source_resumes_where_it_was_or_not_at_all(
    spark: SparkSession, keeper_and_home: tuple[Keeper, Home], tmp_path: Path
) -> None:
    """Spark's rate source numbers its rows: none is missing and none comes twice over two lives of the node. Without
    the checkpoint, which alone knows what was read, nothing is read any more."""
    keeper, home = keeper_and_home

    def declared() -> rk.Pipeline:
        pipeline = rk.Pipeline("p")
        pipeline.source("ticks", rk.sources.Spark("rate", {"rowsPerSecond": 50}))

        @pipeline.stream
        def doubled(ticks: DataFrame) -> DataFrame:
            return ticks.selectExpr("value", "value * 2 AS twice")

        return pipeline

    for life in (1, 2):
        node = Node(declared(), home, keeper, spark, tmp_path / str(life))
        (tmp_path / str(life)).mkdir()
        node.run_until(functools.partial(has_rows, keeper, "doubled", 60 * life))
    values = sorted(row["value"] for row in node.rows("ticks"))
    assert values == list(range(len(values)))
    assert [row["twice"] for row in node.rows("doubled")] == [2 * row["value"] for row in node.rows("doubled")]
    head = keeper.head("ticks")
    assert head > 1

    shutil.rmtree(home.work / "ticks" / "source")
    (tmp_path / "3").mkdir()
    node = Node(declared(), home, keeper, spark, tmp_path / "3")
    node.run_until(lambda: bool(keeper.failures()), may_fail=True)
    (failure,) = keeper.failures()
    assert failure.subject == "ticks" and "ends before what was published from it" in failure.reason
    assert keeper.head("ticks") == head


def summed(limit: int, recovery: Policy) -> rk.Pipeline:
    pipeline = rk.Pipeline("p", recovery=recovery)
    pipeline.source("a", rk.sources.Rate(1000, keys=20, seed=1, start=START, limit=limit), rows_max=50)

    @pipeline.stream(output_mode="update", rows_max=50)
    def totals(a: DataFrame) -> DataFrame:
        return a.groupBy("key").agg(F.sum("value").alias("total"))

    return pipeline


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.rglob(pattern), key=lambda f: int(f.name.split(".")[0]))


@pytest.mark.parametrize(
    ("what", "pattern", "recovery", "how"),
    [
        ("state", "*.changelog", rk.Rollback(copies=0), {"replay"}),
        ("commits", "[0-9]*", rk.Rollback(copies=0), {"replay", "fork"}),
        ("offsets", "[0-9]*", rk.Rollback(interval=0), {"restore"}),
        ("sources", "[0-9]*", rk.Rollback(interval=0), {"restore", "fork"}),
    ],
)
def test_a_checkpoint_that_cannot_be_used_is_not_used(
    spark: SparkSession,
    keeper_and_home: tuple[Keeper, Home],
    tmp_path: Path,
    what: str,
    pattern: str,
    recovery: Policy,
    how: set[str],
) -> None:
    keeper, home = keeper_and_home
    for life, limit in ((1, 200), (2, 300)):
        (tmp_path / str(life)).mkdir()
        node = Node(summed(limit, recovery), home, keeper, spark, tmp_path / str(life))
        node.run_until(functools.partial(took, keeper, "totals", limit))
        if life == 1:
            (replica,) = (home.work / "totals").iterdir()
            damaged = newest(replica / "checkpoint" / what, pattern)
            damaged.write_bytes(b"")
            keeper.fence(node.context.incarnation, "it died")
    joined = keeper.events(kinds=["fragment_joined"])
    assert joined[-1].detail["how"] in how
    assert keeper.events(kinds=["fork_failed", "epoch_retried"]) or joined[-1].detail["how"] != "fork"
    final = {row["key"]: row["total"] for row in node.rows("totals")}
    expected = as_batch(node, spark, "a").groupBy("key").agg(F.sum("value").alias("total")).collect()
    assert final == {row["key"]: row["total"] for row in expected}
    assert not keeper.events(kinds=["output_differs"])


def took(keeper: Keeper, fragment: str, rows: int) -> bool:
    """Whether the fragment has published an epoch that takes in ``rows`` rows of ``a``."""
    claim = keeper.last_claim(fragment)
    if claim is None or keeper.head(fragment) < claim.epoch:
        return False
    return sum(e.output.rows for e in keeper.epochs("a", after=0, through=claim.spans["a"].through)) >= rows
