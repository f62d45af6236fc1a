"""Input without an end, under every policy that keeps something; nothing is retained for its age."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

KEPT = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    "spark.sql.streaming.minBatchesToRetain": "5",
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    # Ten minutes and half an hour unless set, which is longer than this run.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "2s",
    "spark.cleaner.periodicGC.interval": "4s",  # shuffle files go when the collector finds them unused
}
pipeline = rk.Pipeline("endless", settings=rk.Settings(retain_s=0, pace_s=0.1, heartbeat_s=0.2, spark=KEPT))
pipeline.source("ticks", rk.sources.Rate(2000, keys=500, seed=1), rows_max=400)


@pipeline.stream(output_mode="update", recovery=rk.Rollback(interval=0.5))
def totals(ticks: DataFrame) -> DataFrame:
    return ticks.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


@pipeline.stream(output_mode="update", recovery=rk.UpstreamBackup(), state="memory")
def recent(ticks: DataFrame) -> DataFrame:
    grouped = ticks.withWatermark("ts", "1 second").groupBy(F.window("ts", "2 seconds").alias("at"))
    return grouped.agg(F.count("*").alias("n")).selectExpr("at.start AS start", "n")


def nowhere(rows: object, key: str) -> None:
    """The sinks keep nothing, so that what is measured is the home alone."""


pipeline.sink("totals", rk.sinks.Foreach(nowhere))
pipeline.sink("recent", rk.sinks.Foreach(nowhere))
