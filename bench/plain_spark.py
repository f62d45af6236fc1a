"""Plain Structured Streaming, as its users write it: the peer of Rekindle in the benchmarks.

    python bench/plain_spark.py INPUT OUTPUT CHECKPOINT LOG --cores N --files-per-batch N [--idle-s S]
                                [--workload NAME --parameters JSON] [--tuned]

The query of a workload, whose inputs are the folders INPUT/NAME, or else a keyed count and sum over the Parquet files
of INPUT in update mode. A checkpoint, and foreachBatch that overwrites the folder of its batch with Parquet files, so
that a batch that runs again is not there twice. Spark's defaults, but for the number of shuffle partitions, which is
the number of cores (its default of 200 would only slow it down here), and the time zone. ``--tuned``: see TUNED.

Each batch adds a JSON line to LOG: batch, when it began and when its output was there. Ends when no batch came for S
seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "ts timestamp, seq long, key long, value long"
TUNED = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.default.parallelism": "{cores}",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
}
"""What a tuned query sets, beside a heap as large as that of Rekindle's nodes: all that is faster in their sessions.
The state stays on the heap, which is faster than RocksDB as long as it fits."""


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
    parser.add_argument("--workload")
    parser.add_argument("--parameters", type=json.loads, default={})
    parser.add_argument("--tuned", action="store_true")
    options = parser.parse_args()
    spark = _session(options.cores, tuned=options.tuned)
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

    rows, mode = _query(spark, options)
    query = (
        rows.writeStream.outputMode(mode)
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


def _session(cores: int, *, tuned: bool) -> SparkSession:
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    if tuned:
        import psutil  # here, as below: what starts again after a kill imports no more than it needs

        from rekindle.node.session import heap_mb

        heap = f"{heap_mb(psutil.virtual_memory().total)}m"
        for name, value in {**TUNED, "spark.driver.memory": heap}.items():
            builder = builder.config(name, value.format(cores=cores))
    return builder.getOrCreate()


def _query(spark: SparkSession, options: argparse.Namespace) -> tuple[DataFrame, str]:
    """The one output, and its mode."""

    def read(folder: Path, schema: str) -> DataFrame:
        frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", options.files_per_batch)
        return frame.parquet(str(folder))

    if options.workload is None:
        counts = read(options.input, SCHEMA).groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("sum"))
        return counts, "update"
    from bench._workload import picked

    (workload,) = picked([options.workload])
    workload = workload.with_parameters(**options.parameters)
    if workload.query is None:
        raise SystemExit(f"{workload.name} has no plain Spark query")
    inputs = {name: read(options.input / name, schema) for name, schema in workload.inputs.items()}
    return workload.query(inputs, workload.parameters), workload.mode


if __name__ == "__main__":
    main()
