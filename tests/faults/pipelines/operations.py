"""Every kind of stateful operation that the other scenes do not have, each deterministic, over one source in order."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import rekindle as rk

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
ROWS_MAX = 100
LIMIT = 1000
BUCKET_MS = 2000

pipeline = rk.Pipeline("operations", settings=rk.Settings(lease_s=30, heartbeat_s=0.2, pace_s=0.5, spark=QUICK))
pipeline.source("ticks", rk.sources.Rate(50, keys=10, seed=5, start=1_700_000_000.0, limit=LIMIT), rows_max=ROWS_MAX)


class Nth(StatefulProcessor):
    """Numbers the rows of each key in the order in which the source brought them."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        before = self._seen.get()
        frame = pd.concat(list(rows)).sort_values(["epoch", "segment", "index"])
        first = (before[0] if before else 0) + 1
        self._seen.update((first - 1 + len(frame),))
        nth = range(first, first + len(frame))
        yield pd.DataFrame({"seq": frame["seq"].to_numpy(), "key": key[0], "nth": list(nth)})

    def close(self) -> None:
        pass


class Buckets(StatefulProcessor):
    """Counts the rows of each key by stretches of event time, and tells each count when its timer fires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._counts = handle.getMapState("counts", "ends_ms bigint", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for at_ms in frame["at_ms"]:
                ends_ms = (int(at_ms) // BUCKET_MS + 1) * BUCKET_MS
                count = self._counts.getValue((ends_ms,))
                self._counts.updateValue((ends_ms,), ((count[0] if count else 0) + 1,))
                if not count:
                    self._handle.registerTimer(ends_ms)
        yield pd.DataFrame({"key": [], "ends_ms": [], "n": []})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        ends_ms = expiredTimerInfo.getExpiryTimeInMs()
        count = self._counts.getValue((ends_ms,))
        self._counts.removeKey((ends_ms,))
        yield pd.DataFrame({"key": [key[0]], "ends_ms": [ends_ms], "n": [count[0] if count else 0]})

    def close(self) -> None:
        pass


@pipeline.stream(rows_max=ROWS_MAX)
def sessions(ticks: DataFrame) -> DataFrame:
    window = F.session_window("ts", "300 milliseconds").alias("w")
    grouped = ticks.withWatermark("ts", "0 seconds").groupBy(window, "key").agg(F.count("*").alias("n"))
    return grouped.select(F.col("w.start").alias("start"), F.col("w.end").alias("end"), "key", "n")


@pipeline.stream(rows_max=ROWS_MAX)
def firsts(ticks: DataFrame) -> DataFrame:
    marked = ticks.withWatermark("ts", "0 seconds").selectExpr("ts", "key", "int(unix_timestamp(ts) / 4) AS stretch")
    return marked.dropDuplicatesWithinWatermark(["key", "stretch"]).select("key", "stretch")


@pipeline.stream(rows_max=ROWS_MAX)
def alone(ticks: DataFrame) -> DataFrame:
    """Rows of even value with the odd ones of the same key that follow soon, or with nothing."""
    even = ticks.filter("value % 2 = 0").withWatermark("ts", "0 seconds").alias("x")
    odd = ticks.filter("value % 2 = 1").withWatermark("ts", "0 seconds").alias("y")
    near = "x.key = y.key AND y.ts BETWEEN x.ts AND x.ts + INTERVAL 200 MILLISECONDS"
    return even.join(odd, F.expr(near), "left").selectExpr("x.seq AS seq", "y.seq AS other")


@pipeline.stream(rows_max=ROWS_MAX)
def busiest(ticks: DataFrame) -> DataFrame:
    """Two states in one function: counts by second and key, and by four seconds the largest of them."""
    second = ticks.withWatermark("ts", "0 seconds").groupBy(F.window("ts", "1 second"), "key").count()
    stretch = second.groupBy(F.window(F.window_time("window"), "4 seconds").alias("w")).agg(F.max("count").alias("n"))
    return stretch.select(F.col("w.start").alias("start"), "n")


@pipeline.stream(rows_max=ROWS_MAX)
def numbered(ticks: DataFrame) -> DataFrame:
    placed = ticks.withColumn("at", rk.position()).select("seq", "key", "at.epoch", "at.segment", "at.index")
    return placed.groupBy("key").transformWithStateInPandas(Nth(), "seq long, key long, nth long", "Append", "None")


@pipeline.stream(rows_max=ROWS_MAX)
def buckets(ticks: DataFrame) -> DataFrame:
    timed = ticks.withWatermark("ts", "0 seconds").selectExpr("ts", "key", "unix_millis(ts) AS at_ms")
    schema = "key long, ends_ms long, n long"
    return timed.groupBy("key").transformWithStateInPandas(Buckets(), schema, "Append", "EventTime")
