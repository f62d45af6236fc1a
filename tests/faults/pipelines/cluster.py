"""A keyed count on a small Spark cluster: executors in processes of their own."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
SPARK = {
    "spark.master": "local-cluster[2,1,512]",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "128",
}

pipeline = rk.Pipeline("cluster", settings=rk.Settings(lease_s=30, pace_s=0.5, spark=SPARK))
pipeline.source("rows", rk.sources.Rate(100, keys=20, seed=1, start=1_700_000_000.0, limit=1000), rows_max=25)


@pipeline.stream(output_mode="update")
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count("*").alias("n"))


pipeline.sink("counts", rk.sinks.Files("out/counts"))
