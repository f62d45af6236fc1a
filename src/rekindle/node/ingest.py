"""Ingest: the fragment that turns an outside source into a stream.

Two kinds. A source that Rekindle can read claims a range and brings exactly that range. Any other Spark source
is read by a streaming query whose own checkpoint, made durable before each publish, says what was read.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from rekindle.errors import PythonWorkerDied, SourceError
from rekindle.home import fsync_folder
from rekindle.keeper.records import REJECTED_SUFFIX, EpochNumber, Output, Span
from rekindle.node.failures import OperatorFailed, spark_cause
from rekindle.node.worker import Context, Worker
from rekindle.pipeline import SourceDeclaration
from rekindle.recovery.placement import slots
from rekindle.sources.base import Reader
from rekindle.sources.spark import Spark
from rekindle.state import checkpoint
from rekindle.streams.writer import EpochWriter

POLL_S = 0.02
LOOK_SHARE = 9  # at the most a tenth of the time goes into looking for new input
WATCH_S = 0.1
REJECTED = StructType().add("origin", StringType()).add("reason", StringType()).add("row", StringType())
REJECTED_ARROW = pa.schema([("origin", pa.string()), ("reason", pa.string()), ("row", pa.string())])


class EpochBatch:
    """Where a reader puts the rows of one epoch: the segments of the stream and of its dead letters."""

    def __init__(self, context: Context, source: str, epoch: EpochNumber, attempt: int, *, rejects: bool) -> None:
        self._spark = context.spark
        self._rows = EpochWriter(context.home, source, epoch, context.incarnation, attempt)
        self._rejected: dict[str, list[str | None]] = {"origin": [], "reason": [], "row": []}
        self._dead = (
            EpochWriter(context.home, source + REJECTED_SUFFIX, epoch, context.incarnation, attempt)
            if rejects
            else None
        )

    @property
    def spark(self) -> SparkSession:
        return self._spark

    def add_table(self, rows: pa.Table) -> None:
        self._rows.add_table(rows)

    def add_parquet(self, file: Path) -> None:
        self._rows.add_parquet(file)

    def add_frame(self, rows: DataFrame) -> None:
        self._rows.add_frame(rows)

    def reject(self, *, origin: str, reason: str, row: str | None = None) -> None:
        for key, value in (("origin", origin), ("reason", reason), ("row", row)):
            self._rejected[key].append(value)

    def reject_frame(self, rows: DataFrame) -> None:
        self._dead_letters().add_frame(rows)

    def finish(self, source: str) -> dict[str, Output]:
        """What the fragment publishes: the stream's epoch, and that of its dead letters."""
        outputs = {source: self._rows.finish()}
        if self._dead is not None:
            if self._rejected["reason"]:
                self._dead.add_table(pa.table(self._rejected, schema=REJECTED_ARROW))
            outputs[source + REJECTED_SUFFIX] = self._dead.finish()
        return outputs

    def drop(self) -> None:
        self._rows.drop()
        if self._dead is not None:
            self._dead.drop()

    def _dead_letters(self) -> EpochWriter:
        if self._dead is None:
            raise SourceError("a source without dead letters rejected a row")
        return self._dead


class Ingest(Worker):
    """Reads a source by claims."""

    def __init__(self, context: Context, declaration: SourceDeclaration) -> None:
        super().__init__(context, declaration.name, of=slots(context.pipeline, declaration.node))
        self._declaration = declaration
        self._next_claim_s = 0.0
        self.looked = False

    def work(self) -> None:
        context, name = self.context, self.subject
        source, head = self._declaration.source, context.keeper.head(name)
        self.epoch = EpochNumber(head + 1)
        last = context.keeper.claim_of(name, head) if head else None
        after = last.spans[name].through if last is not None else None
        known = context.keeper.claims(name, after=0 if source.needs_history else max(0, head - 1))
        reader = source.open(claim.spans[name].through for claim in known)
        try:
            while True:
                span = self._claim(reader, after)
                if span is None:
                    return
                context.steps.at("after_claim", name, self.epoch)
                self._read_and_publish(reader, span)
                after = span.through
                self.epoch = EpochNumber(self.epoch + 1)
        finally:
            reader.close()

    def _claim(self, reader: Reader, after: Any) -> Span | None:
        context, name = self.context, self.subject
        recorded = context.keeper.claim_of(name, self.epoch)
        if recorded is None:
            context.stopping.wait(max(0.0, self._next_claim_s - context.monotonic()))
            self._next_claim_s = context.monotonic() + context.settings.pace_s
        while recorded is None:
            if context.stopping.is_set():
                return None
            looked_at = context.monotonic()
            newest = self._newest(reader, after)
            self.looked = True
            if newest is not None:
                span = Span(after, json.loads(json.dumps(newest)))
                context.steps.at("before_claim", name, self.epoch)
                recorded = context.keeper.claim(name, self.epoch, {name: span}, by=context.incarnation)
            else:
                took_s = context.monotonic() - looked_at
                context.stopping.wait(max(POLL_S, LOOK_SHARE * took_s))
        return recorded.spans[name]

    def _newest(self, reader: Reader, after: Any) -> Any:
        """How far to read, None if there is nothing new."""
        context, name = self.context, self.subject
        prescribed = context.prescribed.of(name, self.epoch)
        if prescribed is not None:
            return prescribed[name].through
        if context.prescribed.is_over(name):
            return None
        return reader.newest(after, self._declaration.rows_max)

    def _read_and_publish(self, reader: Reader, span: Span) -> None:
        context, name = self.context, self.subject
        batch = EpochBatch(context, name, self.epoch, self.tries, rejects=self._declaration.source.has_rejects)
        reader.read(span, batch)
        context.steps.at("during_compute", name, self.epoch)  # most readers start no Spark job
        outputs = batch.finish(name)
        context.steps.at("before_publish", name, self.epoch)
        if not context.keeper.publish(name, self.epoch, outputs, by=context.incarnation).won:
            batch.drop()
        context.steps.at("after_publish", name, self.epoch)

    def cause(self, error: Exception) -> BaseException:
        return spark_cause(error)


class Drained(Exception):
    """Ends a query before it claims anything more."""


class SparkIngest(Worker):
    """Reads any Spark source by a streaming query; the claim records the offsets that Spark wrote."""

    def __init__(self, context: Context, declaration: SourceDeclaration) -> None:
        super().__init__(context, declaration.name, of=slots(context.pipeline, declaration.node))
        if not isinstance(declaration.source, Spark):
            raise SourceError(f"source {declaration.name!r} is not a Spark source")
        self._source = declaration.source
        self._folder = context.home.work / declaration.name / "source"
        self._raised: Exception | None = None
        self._drained = threading.Event()
        self.looked = False

    def work(self) -> None:
        context = self.context
        self._raised = None
        self.epoch = EpochNumber(context.keeper.head(self.subject) + 1)
        self._check_checkpoint()
        reader = context.spark.newSession().readStream.format(self._source.format).options(**self._source.options)
        if self._source.declared_schema is not None:
            reader = reader.schema(self._source.declared_schema)
        writer = reader.load().writeStream.option("checkpointLocation", str(self._folder))
        query = writer.foreachBatch(self._batch).start()
        try:
            while query.isActive:
                idle = not query.status["isTriggerActive"]
                self.looked = self.looked or (idle and bool(query.recentProgress))
                if context.stopping.wait(WATCH_S) and idle:
                    return
            if self._drained.is_set():
                return
            error = query.exception()
            raise error if error is not None else SourceError(f"the query of source {self.subject!r} ended by itself")
        finally:
            query.stop()

    def cause(self, error: Exception) -> BaseException:
        cause = spark_cause(self._raised or error)
        # Spark's messages may hold any option's value, and this one goes on record.
        hide = self._source.without_secrets
        if isinstance(cause, PythonWorkerDied):
            return PythonWorkerDied(cause.primary, detail=hide(cause.detail), hint=cause.hint)
        return OperatorFailed(hide(str(cause))) if isinstance(cause, OperatorFailed) else cause

    def _batch(self, rows: DataFrame, batch: int) -> None:
        try:
            self._epoch(rows, batch)
        except Exception as error:
            self._raised = error
            raise

    def _epoch(self, rows: DataFrame, batch: int) -> None:
        context, name = self.context, self.subject
        self.epoch = epoch = EpochNumber(batch + 1)
        if context.keeper.epoch(name, epoch) is not None:
            return  # published before a crash; Spark had not committed it
        if context.stopping.is_set():
            self._drained.set()
            raise Drained
        self._make_durable(batch)
        offsets = (self._folder / "offsets" / str(batch)).read_text().splitlines()[2:]
        last = context.keeper.claim_of(name, EpochNumber(batch)) if batch else None
        span = Span(last.spans[name].through if last is not None else None, offsets)
        context.steps.at("before_claim", name, epoch)
        claim = context.keeper.claim(name, epoch, {name: span}, by=context.incarnation)
        if claim.spans[name].through != offsets:
            raise SourceError(
                f"Spark planned epoch {epoch} of source {name!r} anew, with other offsets than those on record",
                detail=f"on record {claim.spans[name].through}, now {offsets}; checkpoint {self._folder}",
                hint="the source's checkpoint was lost or changed: restore it, or start a new home",
            )
        context.steps.at("after_claim", name, epoch)
        batch_writer = EpochBatch(context, name, epoch, self.tries, rejects=False)
        computed = context.steps.computing(name, epoch)
        batch_writer.add_frame(rows)
        computed()
        outputs = batch_writer.finish(name)
        context.steps.at("before_publish", name, epoch)
        if not context.keeper.publish(name, epoch, outputs, by=context.incarnation).won:
            batch_writer.drop()
        context.steps.at("after_publish", name, epoch)

    def _make_durable(self, batch: int) -> None:
        """Spark's log is the authority on what this batch reads, so it must outlive a power cut."""
        for folder in (self._folder / "offsets", *(self._folder / "sources").glob("*")):
            for file in folder.iterdir():
                if file.name.split(".")[0] == str(batch):
                    fd = os.open(file, os.O_RDONLY)
                    try:
                        os.fsync(fd)
                    finally:
                        os.close(fd)
            fsync_folder(folder)

    def _check_checkpoint(self) -> None:
        batches = checkpoint.numbered(self._folder / "offsets")
        known = batches[-1] + 1 if batches else 0
        if known < self.epoch - 1:
            raise SourceError(
                f"the checkpoint of source {self.subject!r} ends before what was published from it",
                detail=f"{self._folder} knows {known} epochs, published are {self.epoch - 1}",
                hint="it is the only record of what was read: restore it, or start a new home",
            )
