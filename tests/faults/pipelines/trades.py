"""Two sources, a join with an aggregate on top, and an aggregate in append mode: all of it deterministic.

TRADES_MIXED gives every fragment another recovery policy, and adds two more of them.
"""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk

START_S = 1_700_000_000.0
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}

pipeline = rk.Pipeline(
    "trades",
    settings=rk.Settings(
        lease_s=float(os.environ.get("TRADES_LEASE_S", "30")),
        heartbeat_s=0.2,
        zombie_s=300,
        pace_s=float(os.environ.get("TRADES_PACE_S", "0.1")),
        pool=int(os.environ.get("TRADES_POOL", "0")),
        spark=QUICK,
    ),
)
MIXED = "TRADES_MIXED" in os.environ
ACTIVE, PASSIVE = (rk.ActiveStandby(2), rk.PassiveStandby(interval=0.5)) if MIXED else (None, None)
LIMIT = int(os.environ.get("TRADES_LIMIT", "2400"))
ROWS_MAX = int(os.environ.get("TRADES_ROWS_MAX", "200"))  # smaller epochs, and more of them: the rows are the same
pipeline.source("bids", rk.sources.Rate(100, keys=20, seed=1, start=START_S, limit=LIMIT), rows_max=ROWS_MAX)
pipeline.source("asks", rk.sources.Rate(100, keys=20, seed=2, start=START_S, limit=LIMIT), rows_max=ROWS_MAX)


@pipeline.stream(rows_max=ROWS_MAX, recovery=ACTIVE)
def joined(bids: DataFrame, asks: DataFrame) -> DataFrame:
    bid = bids.withWatermark("ts", "2 seconds").alias("bid")
    ask = asks.withWatermark("ts", "2 seconds").alias("ask")
    near = "bid.key = ask.key AND ask.ts BETWEEN bid.ts - INTERVAL 0.5 SECOND AND bid.ts + INTERVAL 0.5 SECOND"
    columns = ["bid.ts", "bid.key", "bid.seq AS bid_seq", "ask.seq AS ask_seq", "bid.value - ask.value AS spread"]
    return bid.join(ask, F.expr(near)).selectExpr(*columns)


@pipeline.stream(output_mode="update", state="memory")
def spreads(joined: DataFrame) -> DataFrame:
    """Its input is as late as two sources can be apart, so nothing may be dropped: the watermark is far behind."""
    window = F.window("ts", "5 seconds").alias("at")
    sums = [F.count("*").alias("n"), F.sum("spread").alias("total"), F.min("bid_seq").alias("first")]
    grouped = joined.withWatermark("ts", "1 hour").groupBy(window, "key").agg(*sums)
    return grouped.selectExpr("at.start AS start", "key", "n", "total", "first")


@pipeline.stream(rows_max=2 * ROWS_MAX, recovery=PASSIVE)
def volumes(bids: DataFrame) -> DataFrame:
    grouped = bids.withWatermark("ts", "1 second").groupBy(F.window("ts", "2 seconds").alias("at"), "key")
    return grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total")).selectExpr(
        "at.start AS start", "key", os.environ.get("TRADES_COUNT", "n"), "total"
    )


if MIXED:

    @pipeline.stream(rows_max=ROWS_MAX, output_mode="update", recovery=rk.UpstreamBackup())
    def quarters(asks: DataFrame) -> DataFrame:
        grouped = asks.withWatermark("ts", "1 second").groupBy(F.window("ts", "2 seconds", "1 second").alias("at"))
        return grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total")).selectExpr(
            "at.start AS start", "n", "total"
        )

    @pipeline.stream(rows_max=ROWS_MAX, output_mode="update", recovery=rk.Gap(), guarantee="at-most-once")
    def seen(bids: DataFrame) -> DataFrame:
        return bids.groupBy("key").agg(F.count("*").alias("n"))

    pipeline.sink("quarters", rk.sinks.Files("out/quarters"))
    pipeline.sink("seen", rk.sinks.Files("out/seen"))


pipeline.sink("joined", rk.sinks.Files("out/joined"))
pipeline.sink("spreads", rk.sinks.Files("out/spreads"))
