"""Somebody else's Spark program: a plain session that knows nothing of Rekindle but the format's name.

Its arguments: the home, a folder of its own. It prints one JSON value for each thing it does, and waits for a line on
its standard input before the second half.
"""

import json
import sys
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

home, folder = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
OPTIONS = {"home": home, "stream": "s"}


def tell(value: Any) -> None:
    print("TOLD", json.dumps(value), flush=True)


def batch(**options: str) -> None:
    try:
        rows = spark.read.format("rekindle").options(**OPTIONS, **options).load().collect()
        tell(sorted(row["v"] for row in rows))
    except PySparkException as error:
        tell(str(error))


def keep(rows: DataFrame, number: int) -> None:
    tell(sorted(row["v"] for row in rows.collect()))


def follow() -> None:
    """Everything that is new since the checkpoint of the last time."""
    frame = spark.readStream.format("rekindle").options(**OPTIONS).load()
    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", f"{folder}/checkpoint").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


batch()
batch(epoch="2")
batch(epoch="3", from_epoch="2")
batch(epoch="1")
follow()
sys.stdin.readline()
follow()
batch()
tell("rekindle" in sys.modules)
