"""Files, a count that is kept, files again: nothing in it may be lost, repeated or changed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}

pipeline = rk.Pipeline("words", settings=rk.Settings(lease_s=10, heartbeat_s=0.2, pace_s=0.2, spark=QUICK))
pipeline.source("lines", rk.sources.Files("nowhere", format="json", schema="id long, line string"), rows_max=10)


@pipeline.stream(output_mode="update", rows_max=10, partitions=1, guarantee="precise")
def counts(lines: DataFrame) -> DataFrame:
    return lines.select(F.explode(F.split("line", " ")).alias("word")).groupBy("word").count()


pipeline.sink("counts", rk.sinks.Files("/nowhere/out"))
