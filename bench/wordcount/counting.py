"""The count itself: what Rekindle's pipeline and the plain query share."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.wordcount.workload import LATE_S


def counted(lines: DataFrame, window_s: int) -> DataFrame:
    words = lines.withWatermark("ts", f"{LATE_S} seconds").select(
        "ts", "seq", F.explode(F.split("line", " ")).alias("word")
    )
    counts = words.groupBy(F.window("ts", f"{window_s} seconds"), "word").agg(
        F.count("*").alias("n"), F.max("seq").alias("seq")
    )
    return counts.select(F.unix_millis("window.start").alias("start_ms"), "word", "n", "seq")
