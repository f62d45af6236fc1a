"""A stateless fragment: a plain loop of Spark batch jobs over the claimed segments.

It has no state of its own: where it stands is the head of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.node.claims import Claims, Work
from rekindle.node.failures import damaged_input, spark_cause
from rekindle.node.traits import run_operators, watermarked
from rekindle.node.worker import Context, Worker
from rekindle.plan import Fragment
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.segments import verify
from rekindle.streams.writer import EpochWriter


class Stateless(Worker):
    def __init__(self, context: Context, fragment: Fragment) -> None:
        super().__init__(context, fragment.name)
        self._fragment = fragment
        self._work: Work | None = None

    def work(self) -> None:
        context = self.context
        claims = Claims(
            context.keeper,
            self._fragment,
            context.incarnation,
            context.stopping,
            settle_s=context.settings.settle_s,
            clock=context.monotonic,
            steps=context.steps,
        )
        context.spark.sparkContext.setJobGroup(self.subject, f"stream {self.subject}")
        self.epoch = EpochNumber(context.keeper.head(self._fragment.name) + 1)
        while True:
            self._work = work = claims.next(self.epoch)
            if work is None:
                return
            self._compute_and_publish(work)
            self.epoch = EpochNumber(self.epoch + 1)

    def _compute_and_publish(self, work: Work) -> None:
        context, name = self.context, self._fragment.name
        writer = EpochWriter(context.home, name, work.epoch, context.incarnation, self.tries)
        frames = {i: self._frame(i, work.inputs.get(i, ())) for i in self._fragment.inputs}
        computed = context.steps.computing(self.subject, self.epoch)
        writer.add_frame(run_operators(self._fragment, frames))
        computed()
        output = writer.finish()
        context.steps.at("before_publish", self.subject, self.epoch)
        if not context.keeper.publish(name, work.epoch, {name: output}, by=context.incarnation).won:
            writer.drop()
        context.steps.at("after_publish", self.subject, self.epoch)

    def _frame(self, name: str, records: Sequence[Epoch]) -> DataFrame:
        context = self.context
        paths = [
            str(verify(context.home, s, stream=r.stream, epoch=r.epoch)) for r in records for s in r.output.segments
        ]
        schema = context.analysis.schemas[name]
        frame = context.spark.read.schema(schema).parquet(*(paths or [str(self._empty(name))]))
        return watermarked(frame, context.analysis.watermarks.get(name, {}))

    def _empty(self, name: str) -> Path:
        """A file without rows, for an input that contributes nothing."""
        folder = self.context.home.work / self.subject / f"{self.context.incarnation}-0"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        if not path.exists():
            pq.write_table(arrow_schema(self.context.analysis.schemas[name]).empty_table(), path)
        return path

    def cause(self, error: Exception) -> BaseException:
        return damaged_input(self.context.home, self._work) or spark_cause(error)
