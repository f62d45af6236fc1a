"""Operators that are not deterministic, and say that they are, or whose UDF hides it; and some that are."""

import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

import rekindle as rk

ROWS = 240

pipeline = rk.Pipeline("unsteady", recovery=rk.Rollback(copies=0), settings=rk.Settings(pace_s=0.01))
START = datetime(2026, 1, 1, tzinfo=UTC)
for seed, name in enumerate(("a", "b")):
    pipeline.source(name, rk.sources.Rate(1000, keys=6, seed=seed, start=START, limit=ROWS), rows_max=80)


# -- not deterministic ---------------------------------------------------------------------------------


@pipeline.stream(rows_max=80)
def numbered(a: DataFrame) -> DataFrame:
    """The order of rows within a task decides."""

    def count_up(value: pd.Series) -> pd.Series:
        return pd.Series(range(len(value)))

    of_series: Any = pandas_udf  # its overloads know of other types than these
    number = of_series(count_up, "long")

    return a.select("seq", number("value").alias("number"))


@pipeline.stream(deterministic=True, output_mode="update", rows_max=80)
def firsts(a: DataFrame) -> DataFrame:
    return a.groupBy("key").agg(F.first("seq").alias("first"))


@pipeline.stream(rows_max=80)
def tagged(a: DataFrame) -> DataFrame:
    tag = F.udf(lambda seq: f"{seq}-{uuid.uuid4()}")
    return a.select("seq", "key", tag("seq").alias("tag"))


@pipeline.stream(rows_max=80)
def lengths(tagged: DataFrame) -> DataFrame:
    """Steady itself: what it reads is not."""
    return tagged.select("seq", F.length("tag").alias("long"), F.substring("tag", -4, 4).alias("tail"))


@pipeline.stream(rows_max=80)
def joined_up(a: DataFrame) -> DataFrame:
    """A set of text has an order that PYTHONHASHSEED decides."""
    words = F.udf(lambda key: " ".join({"red", "green", "blue", "white", f"word {key}"}))
    return a.select("seq", words("key").alias("words"))


@pipeline.stream(rows_max=80)
def timed(a: DataFrame) -> DataFrame:
    now = F.udf(lambda seq: int(time.time()), "long")
    return a.select("seq", now("seq").alias("at"))


# -- deterministic -------------------------------------------------------------------------------------


@pipeline.stream(rows_max=80)
def matched(a: DataFrame, b: DataFrame) -> DataFrame:
    left, right = a.withWatermark("ts", "5 seconds").alias("x"), b.withWatermark("ts", "5 seconds").alias("y")
    near = "x.key = y.key and y.ts between x.ts and x.ts + interval 50 milliseconds"
    return left.join(right, F.expr(near)).select(F.col("x.seq").alias("sa"), F.col("y.seq").alias("sb"))


@pipeline.stream(rows_max=80)
def shared(b: DataFrame) -> DataFrame:
    return b.withColumn("share", F.col("value") / 3.0)


@pipeline.stream(output_mode="update", rows_max=80)
def windows(shared: DataFrame) -> DataFrame:
    """Sums of doubles depend on the order of their terms in the last bits."""
    grouped = shared.withWatermark("ts", "1 second").groupBy(F.window("ts", "20 milliseconds"), "key")
    return grouped.agg(F.sum("share").alias("total"), F.avg("value").alias("mean")).select(
        F.col("window.start").alias("start"), "key", "total", "mean"
    )


@pipeline.stream(output_mode="update", rows_max=80)
def earliest(b: DataFrame) -> DataFrame:
    """It depends on order, and goes by the position."""
    return b.withColumn("at", rk.position()).groupBy("key").agg(F.min_by("seq", "at").alias("seq"))
