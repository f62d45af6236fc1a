"""The same keyed count and sum as bench/plain_spark.py, as a Rekindle pipeline. Folders by environment, and BENCH_STATE
says where the state lives."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

pipeline = rk.Pipeline("keyed")
pipeline.source(
    "rows",
    rk.sources.Files(
        os.environ["BENCH_INPUT"], format="parquet", schema="ts timestamp, seq long, key long, value long"
    ),
    rows_max=int(os.environ["BENCH_ROWS_MAX"]),
)


@pipeline.stream(
    output_mode="update", rows_max=int(os.environ["BENCH_ROWS_MAX"]), state=os.environ.get("BENCH_STATE", "rocksdb")
)
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


pipeline.sink("counts", rk.sinks.Files(os.environ["BENCH_OUTPUT"], format="parquet"))
