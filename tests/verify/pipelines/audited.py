"""A small pipeline with every kind of stream that an audit knows: a source, a fragment with state and layers, a
stateless one, one that is logged, and a sink."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

ROWS = 200
FACTOR = 2

pipeline = rk.Pipeline("audited", recovery=rk.Rollback(interval=0), settings=rk.Settings(pace_s=0.01))
START = datetime(2026, 1, 1, tzinfo=UTC)
pipeline.source("a", rk.sources.Rate(100_000, keys=5, start=START, limit=ROWS), rows_max=50)


@pipeline.stream
def doubled(a: DataFrame) -> DataFrame:
    return a.select("key", "seq", (F.col("value") * FACTOR).alias("twice"))


@pipeline.stream(output_mode="update", rows_max=50)
def counts(doubled: DataFrame) -> DataFrame:
    return doubled.groupBy("key").agg(F.count("*").alias("n"), F.sum("twice").alias("total"))


@pipeline.stream(rows_max=50)
def plain(a: DataFrame) -> DataFrame:
    return a.select("seq", "key")


@pipeline.stream(rows_max=50)
def stamped(a: DataFrame) -> DataFrame:
    return a.select("seq", F.rand().alias("at"))


def ignore(rows: object, key: str) -> None:
    """A receiver that forgets."""


pipeline.sink("plain", rk.sinks.Foreach(ignore))
