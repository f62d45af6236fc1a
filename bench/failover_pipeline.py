"""A keyed count and sum with the recovery policy named by BENCH_POLICY: what bench/failover.py runs and kills.

Folders by environment, as in bench/keyed.py. UpstreamBackup refuses a state without bounds, so under it the same count
is taken over windows of event time, with a watermark: about as many rows of state, but bounded.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from bench._place import POLICIES

POLICY = os.environ["BENCH_POLICY"]
ROWS_MAX = int(os.environ["BENCH_ROWS_MAX"])

pipeline = rk.Pipeline("failover", settings=rk.Settings(pool=1 if POLICY == "pool" else 0), recovery=POLICIES[POLICY])
pipeline.source(
    "rows",
    rk.sources.Files(
        os.environ["BENCH_INPUT"], format="parquet", schema="ts timestamp, seq long, key long, value long"
    ),
    rows_max=ROWS_MAX,
)

if POLICY == "upstream_backup":

    @pipeline.stream(output_mode="update", rows_max=ROWS_MAX)
    def counts(rows: DataFrame) -> DataFrame:
        windows = rows.withWatermark("ts", "5 seconds").groupBy(F.window("ts", "10 seconds"), "key")
        counted = windows.agg(F.count("*").alias("n"), F.sum("value").alias("sum"))
        return counted.select(F.col("window.start").alias("starts"), "key", "n", "sum")

else:

    @pipeline.stream(output_mode="update", rows_max=ROWS_MAX)
    def counts(rows: DataFrame) -> DataFrame:
        return rows.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))


pipeline.sink("counts", rk.sinks.Files(os.environ["BENCH_OUTPUT"], format="parquet"))
