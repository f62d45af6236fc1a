"""Fragments without state: one that is deterministic, one that stamps every row, files with rows that are not fit."""

import json
import os

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}

pipeline = rk.Pipeline("stamps", settings=rk.Settings(lease_s=60, heartbeat_s=0.2, spark=QUICK))
ticks = rk.sources.Rate(1000, keys=10, seed=3, start=1_700_000_000.0, limit=int(os.environ["STAMPS_LIMIT"]))
pipeline.source("ticks", ticks, rows_max=100)
pipeline.source("notes", rk.sources.Files("notes", format="json", schema="id long, text string"), rows_max=20)
pipeline.source("readings", rk.sources.Files("readings", schema="id long, celsius double"), rows_max=20)


@pipeline.stream(keep=True, rows_max=100)
def odd(ticks: DataFrame) -> DataFrame:
    return ticks.filter("value % 2 = 1")


@pipeline.stream(rows_max=1)  # one epoch of its input at a time, however far behind it is
def stamped(odd: DataFrame) -> DataFrame:
    return odd.select("seq", "key", F.expr("uuid()").alias("id"))


for stream in ("stamped", "notes", "notes_rejected", "readings", "readings_rejected"):
    pipeline.sink(stream, rk.sinks.Files(f"out/{stream}"))


def tell(rows: pa.Table, key: str) -> None:
    """What a receiver sees that keeps no account of what it has: every call."""
    with open("told", "a") as file:
        file.write(json.dumps({"key": key, "seqs": rows["seq"].to_pylist()}) + "\n")


pipeline.sink("odd", rk.sinks.Foreach(tell), name="told")
