"""Every recovery policy in one pipeline, and every kind of operator: what the table of guarantees and the soak run.

EVERYTHING_ROWS_PER_S and EVERYTHING_LIMIT say how much there is to do, EVERYTHING_RETAIN_S how long epochs stay, and
EVERYTHING_OUT where the sinks deliver to.
"""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

ROWS_PER_S = int(os.environ.get("EVERYTHING_ROWS_PER_S", "200"))
LIMIT = int(os.environ["EVERYTHING_LIMIT"]) if "EVERYTHING_LIMIT" in os.environ else None
OUT = Path(os.environ.get("EVERYTHING_OUT", "everything-out"))
JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

pipeline = rk.Pipeline(
    "everything",
    settings=rk.Settings(
        lease_s=5,
        heartbeat_s=0.3,
        zombie_s=20,
        pace_s=0.4,
        restarts_max=1000,
        attempts_max=10,
        retain_s=float(os.environ.get("EVERYTHING_RETAIN_S", "3600")),
        spark={"spark.driver.memory": "900m", "spark.driver.extraJavaOptions": JVM},
    ),
)
# Its own clock never jumps: an hour ahead would be an hour's rows at once.
pipeline.source("events", rk.sources.Rate(ROWS_PER_S, keys=20, seed=1, limit=LIMIT, clock=time.time))


def twice(value: int) -> int:
    """A Python function, so that there are Python workers to be killed."""
    return 2 * value


@pipeline.stream(keep=True)
def clean(events: DataFrame) -> DataFrame:
    return events.filter("value % 10 != 0").selectExpr("seq", "key", "value")


@pipeline.stream
def called(clean: DataFrame) -> DataFrame:
    return clean.filter("value % 50 = 1").select("seq", F.udf(twice, "long")("value").alias("doubled"))


def windows(rows: DataFrame) -> DataFrame:
    grouped = rows.withWatermark("ts", "1 second").groupBy(F.window("ts", "1 second").alias("at"), "key")
    return grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total")).selectExpr(
        "at.start AS start", "key", "n", "total"
    )


@pipeline.stream(partitions=1, recovery=rk.Rollback(interval=2))
def rolled(events: DataFrame) -> DataFrame:
    return windows(events)


@pipeline.stream(partitions=1, recovery=rk.PassiveStandby(interval=1))
def passive(events: DataFrame) -> DataFrame:
    return windows(events)


@pipeline.stream(partitions=1, recovery=rk.ActiveStandby(replicas=2))
def active(events: DataFrame) -> DataFrame:
    return windows(events)


@pipeline.stream(partitions=1, recovery=rk.UpstreamBackup())
def upstream(events: DataFrame) -> DataFrame:
    return windows(events)


@pipeline.stream(partitions=1, recovery=rk.Gap(), guarantee="at-most-once")
def gapped(events: DataFrame) -> DataFrame:
    return events.withWatermark("ts", "1 second").dropDuplicatesWithinWatermark(["seq"]).select("seq", "key", "value")


def tell(rows: pa.Table, key: str) -> None:
    """A receiver that keeps no account of what it has: every call is noted, in one write."""
    OUT.mkdir(parents=True, exist_ok=True)
    values = rows["seq"].to_pylist()
    line = json.dumps({"key": key, "rows": len(values), "sum": sum(values)}) + "\n"
    with open(OUT / "told.jsonl", "ab", buffering=0) as file:
        file.write(line.encode())


pipeline.sink("clean", rk.sinks.Files(OUT / "clean", format="parquet"), name="files")
pipeline.sink("clean", rk.sinks.Foreach(tell), name="told")
