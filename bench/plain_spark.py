"""Plain Structured Streaming, as its users write it: the peer in bench/steady.py.

    python bench/plain_spark.py INPUT OUTPUT CHECKPOINT LOG --cores N --files-per-batch N [--idle-s S] [--state S]

A keyed count and sum over Parquet files, update mode, checkpoint, foreachBatch to Parquet: Spark's defaults, but for
the number of shuffle partitions, which is the number of cores (its default of 200 would only slow it down here).
Each batch adds a JSON line to LOG: batch, rows, when it began and when its output was there. Ends when no batch
came for S seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "ts timestamp, seq long, key long, value long"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--files-per-batch", type=int, required=True)
    parser.add_argument("--idle-s", type=float, default=3.0)
    parser.add_argument("--state", choices=["memory", "rocksdb"], default="memory", help="Spark's default is memory")
    options = parser.parse_args()
    spark = (
        SparkSession.builder.master(f"local[{options.cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(options.cores))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    if options.state == "rocksdb":
        provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    last: list[float] = []
    log = open(options.log, "a")  # noqa: SIM115  open as long as the process lives

    def batch(rows: DataFrame, number: int) -> None:
        began = time.time()
        rows.write.mode("overwrite").parquet(str(options.output / f"batch={number:06d}"))
        ended = time.time()
        log.write(json.dumps({"batch": number, "began_s": began, "ended_s": ended}) + "\n")
        log.flush()
        last[:] = [ended]

    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.files_per_batch)
    counted = frame.parquet(str(options.input)).groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))
    query = (
        counted.writeStream.outputMode("update")
        .option("checkpointLocation", str(options.checkpoint))
        .foreachBatch(batch)
        .start()
    )
    while query.isActive and (not last or time.time() - last[0] < options.idle_s):
        time.sleep(0.1)
    error = query.exception()
    query.stop()
    if error is not None:
        raise error


if __name__ == "__main__":
    main()
