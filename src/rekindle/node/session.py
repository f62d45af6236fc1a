"""The Spark session of a node, and the settings that Rekindle needs it to have."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rekindle.errors import RekindleError
from rekindle.java import check_java

STREAMING = "org.apache.spark.sql.execution.streaming"

STATE_PROVIDERS = {
    "rocksdb": f"{STREAMING}.state.RocksDBStateStoreProvider",
    "memory": f"{STREAMING}.state.HDFSBackedStateStoreProvider",
}
"""By where the state of a stream lives. Both write layers: a file for each epoch, now and then one of all."""

REQUIRED = {
    # The keeper decides when an epoch is empty, never Spark's timing.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # State as immutable layers: changelogs are the deltas, snapshots the merged ones.
    "spark.sql.streaming.stateStore.providerClass": STATE_PROVIDERS["rocksdb"],
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Spark's manager for local paths starts a process for each log file; this one renames.
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Damaged pages of our own segments are found when they are read.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Structured Streaming fixes the partitions of a state when it starts: see Fragment.partitions.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "WARN",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # Files of shuffles go when the collector finds them unused; a heap with room for hours of epochs never looks.
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.scheduler.mode": "FAIR",
    # A Python worker that crashes says where.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.sql.adaptive.enabled": "false",
    # RocksDB: one cache for all of the node's states, large enough to hold the hot keys (Spark's default is 8 MB each),
    # and no look-up before each write just to count keys.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "1024",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # A claim may name hundreds of small segments. Spark would list each in a task of its own, and count four
    # megabytes for opening one: seconds an epoch, for files that are on this host's disk.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.files.openCostInBytes": "65536",
}


def heap_mb(memory_bytes: int) -> int:
    """How far the JVM's heap may grow unless the user says: an eighth of the machine's memory, since several nodes may
    share it; 1 to 4 GB. Spark's own default is 1 GB, in which a million keys in memory leave the collector no rest.

    >>> heap_mb(24 * 2**30)
    3072
    """
    return min(4096, max(1024, memory_bytes // 8 // 2**20))


def start_session(name: str, *, cores: int, conf: Mapping[str, str], scratch: Path | None = None) -> SparkSession:
    """A session with everything that fragments need; ``conf`` is the user's, ``REQUIRED`` outranks it.

    Raises NoJava or another RekindleError if Spark does not start.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = scratch or Path(tempfile.mkdtemp(prefix="rekindle-"))
    settings = {
        **DEFAULTS,
        "spark.driver.memory": f"{heap_mb(psutil.virtual_memory().total)}m",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
        **conf,
        **REQUIRED,
    }
    builder = SparkSession.builder.appName(f"rekindle-{name}")
    if "spark.master" not in conf:
        builder = builder.master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        check_java()  # only now: it takes a moment, and a node that starts is waited for
        raise RekindleError(
            "Spark did not start",
            detail=_first_line(error),
            hint="what Spark wrote just before this says why; check JAVA_HOME, free memory and Settings(spark=...)",
        ) from error


def _first_line(error: Exception) -> str:
    text = str(error.java_exception.toString() if isinstance(error, Py4JJavaError) else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
