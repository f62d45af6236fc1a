"""Counts the words of JSON files that are dropped into the folder ``in``, per five seconds of event time."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

pipeline = rk.Pipeline("words")
pipeline.source("lines", rk.sources.Files("in", format="json", schema="ts timestamp, line string"))


@pipeline.stream
def counts(lines: DataFrame) -> DataFrame:
    words = lines.withWatermark("ts", "10 seconds").select("ts", F.explode(F.split("line", " ")).alias("word"))
    return words.groupBy(F.window("ts", "5 seconds"), "word").count()


pipeline.sink("counts", rk.sinks.Files("out", format="json"))
