"""Sinks and a stream of each kind: what they give when their node dies, verify must find out.

The sinks that end their own process do so once, in the middle of a delivery, as a bug in user code would; the file
that says that they have is in the folder that VERDICTS_ONCE names.
"""

import json
import os
import signal
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.sinks.base import Delivery, Sink, Writer

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"}
DIES_AT = {"provisional": 4, "stamped": 8}
START_S = 1_700_000_000.0

pipeline = rk.Pipeline("verdicts", settings=rk.Settings(lease_s=5, heartbeat_s=0.2, pace_s=0.2, spark=QUICK))
pipeline.source("ticks", rk.sources.Rate(1000, keys=5, seed=1, start=START_S, limit=3000), rows_max=100)


@pipeline.stream(rows_max=100)
def odd(ticks: DataFrame) -> DataFrame:
    return ticks.filter("value % 2 = 1").select("seq", "value")


@pipeline.stream(output_mode="update", recovery=rk.Gap(), rows_max=100)
def seen(ticks: DataFrame) -> DataFrame:
    return ticks.groupBy("key").agg(F.count("*").alias("n"))


class Lines(Sink):
    """Appends the rows of each epoch to one file: at least once, and without a memory."""

    def __init__(self, folder: str | Path = "/nowhere", *, stamped: bool = False, provisional: bool = False) -> None:
        self.folder = Path(folder)
        self.stamped = stamped
        self.provisional = provisional

    def open(self) -> Writer:
        return LinesWriter(self)

    @property
    def guarantee(self) -> str:
        return "at-least-once"

    def describe(self) -> str:
        return "lines"

    def redirected(self, folder: Path) -> Sink:
        return Lines(folder, stamped=self.stamped, provisional=self.provisional)


class LinesWriter(Writer):
    def __init__(self, sink: Lines) -> None:
        self.sink = sink

    def deliver(self, delivery: Delivery) -> None:
        rows = delivery.table().to_pylist()
        if self.sink.provisional:
            file = self.sink.folder / f"{delivery.epoch}.json"
            self.write(file, "w", [{**row, "value": None} for row in rows])
            die_once("provisional", delivery)
            self.write(file, "w", rows)
            return
        if self.sink.stamped:
            rows = [{**row, "at": time.time()} for row in rows]
        self.write(self.sink.folder / "all.json", "a", rows)
        if self.sink.stamped:
            die_once("stamped", delivery)

    def write(self, file: Path, mode: str, rows: list[dict[str, object]]) -> None:
        with open(file, mode) as lines:
            lines.writelines(f"{json.dumps(row)}\n" for row in rows)


def die_once(name: str, delivery: Delivery) -> None:
    mark = Path(os.environ["VERDICTS_ONCE"]) / name
    if delivery.epoch == DIES_AT[name] and "run-1-" in str(Path(os.environ["REKINDLE_CLOCK"])) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def never_called(rows: pa.Table, key: str) -> None:
    raise AssertionError("verify must not call the user's function")


pipeline.sink("odd", rk.sinks.Files("/nowhere/out"), name="exact")
pipeline.sink("odd", rk.sinks.Foreach(never_called), name="called")
pipeline.sink("odd", Lines(), name="appended")
pipeline.sink("odd", Lines(stamped=True), name="stamped")
pipeline.sink("odd", Lines(provisional=True), name="provisional")
