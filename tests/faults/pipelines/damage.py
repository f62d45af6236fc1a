"""Two intermediate streams and their readers; an operator with a Python function; one that crashes Python; one that has
nothing to do with it.

The readers come with READERS=1, so that the streams can be damaged before anybody reads them.
"""

import os
import signal
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}
HERE = Path(__file__).parent
HELD = 250  # the row at which the worker waits to be killed
BAD = 550  # the row that the function does not understand

pipeline = rk.Pipeline("damage", settings=rk.Settings(lease_s=60, heartbeat_s=0.2, spark=QUICK))
pipeline.source("ticks", rk.sources.Rate(1000, keys=10, seed=4, start=1_700_000_000.0, limit=1000), rows_max=100)


@pipeline.stream(keep=True, rows_max=100)
def even(ticks: DataFrame) -> DataFrame:
    return ticks.filter("value % 2 = 0")


@pipeline.stream(keep=True, rows_max=100)
def third(ticks: DataFrame) -> DataFrame:
    return ticks.filter("value % 3 = 0")


def score(seq: int) -> int:
    if seq == HELD and not (HERE / "go-on").exists():
        (HERE / "worker").write_text(str(os.getpid()))
        while not (HERE / "go-on").exists():
            time.sleep(0.01)
    if seq == BAD:
        raise ValueError("this row is not understood")  # mended by the test
    return seq * 2


def crash(seq: int) -> int:
    if seq == BAD:
        os.kill(os.getpid(), signal.SIGSEGV)  # mended by the test
    return seq


if os.environ.get("READERS"):

    @pipeline.stream(output_mode="update", rows_max=50)
    def sums(even: DataFrame) -> DataFrame:
        return even.groupBy("key").agg(F.sum("value").alias("total"), F.count("*").alias("n"))

    @pipeline.stream(rows_max=50)
    def thirds(third: DataFrame) -> DataFrame:
        return third.select("seq")

    @pipeline.stream(rows_max=100)
    def scored(ticks: DataFrame) -> DataFrame:
        return ticks.select("seq", F.udf(score, "long")("seq").alias("score"))

    @pipeline.stream(rows_max=100)
    def crashed(ticks: DataFrame) -> DataFrame:
        return ticks.select(F.udf(crash, "long")("seq").alias("seq"))

    @pipeline.stream(rows_max=100)
    def fine(ticks: DataFrame) -> DataFrame:
        return ticks.select("seq", "key")

    for stream in ("sums", "thirds", "scored", "crashed", "fine"):
        pipeline.sink(stream, rk.sinks.Files(f"out/{stream}"))
