"""Delivery: takes the epochs of a stream to a sink, in order, and records each one.

A sink that is new to a stream starts with the oldest epoch that is kept.
"""

from __future__ import annotations

import pyarrow as pa

from rekindle.errors import DeclarationError, EpochTrimmed
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.node.worker import Context, Worker
from rekindle.pipeline import SinkDeclaration
from rekindle.recovery.placement import slots
from rekindle.sinks.base import Delivery, Writer
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.segments import verify

PAGE = 64
WAIT_S = 1.0


class Deliver(Worker):
    def __init__(self, context: Context, declaration: SinkDeclaration) -> None:
        super().__init__(context, declaration.name, of=slots(context.pipeline, declaration.node))
        self._declaration = declaration
        self._schema: pa.Schema = arrow_schema(context.analysis.schemas[declaration.stream])

    def work(self) -> None:
        context, stream = self.context, self._declaration.stream
        before, _ = context.keeper.deliveries().get(self.subject, (stream, 0))
        if before != stream:
            raise DeclarationError(
                f"sink {self.subject!r} delivers stream {stream!r}, but it has taken epochs of {before!r}",
                detail=str(self._declaration.place),
                hint="give the sink of the other stream a name of its own: sink(..., name='...')",
            )
        writer = self._declaration.sink.open()
        try:
            self.epoch = self._first()
            seen = 0
            while not context.stopping.is_set():
                page = context.keeper.epochs(stream, after=self.epoch - 1, limit=PAGE)
                for record in page:
                    self._deliver(writer, record)
                if not page:
                    seen = context.keeper.wait(seen, WAIT_S)
            for record in context.keeper.epochs(stream, after=self.epoch - 1):
                self._deliver(writer, record)
        finally:
            writer.close()

    def _first(self) -> EpochNumber:
        """The epoch to begin with."""
        keeper, stream = self.context.keeper, self._declaration.stream
        delivered, oldest = keeper.delivered(self.subject), keeper.oldest(stream)
        if delivered == 0 and oldest > 1:
            keeper.event("sink_starts_late", self.subject, stream=stream, epoch=oldest)
            return oldest
        return EpochNumber(delivered + 1)

    def _deliver(self, writer: Writer, record: Epoch) -> None:
        context = self.context
        if record.epoch != self.epoch:
            raise EpochTrimmed(
                f"sink {self.subject!r} is to take epoch {self.epoch} of stream {record.stream!r} next, and that was "
                "trimmed",
                detail=f"the oldest epoch that is kept is {record.epoch}",
                hint="it was left out of the pipeline for longer than the stream is kept: under a new name it starts "
                "with what is kept",
            )
        segments = tuple(
            verify(context.home, s, stream=record.stream, epoch=record.epoch) for s in record.output.segments
        )
        delivery = Delivery(
            home=context.home.id,
            pipeline=context.pipeline.name,
            sink=self.subject,
            stream=record.stream,
            epoch=record.epoch,
            rows=record.output.rows,
            schema=self._schema,
            segments=segments,
        )
        context.steps.at("before_delivery", self.subject, record.epoch)
        writer.deliver(delivery)
        context.steps.at("after_delivery", self.subject, record.epoch)
        context.keeper.record_delivery(self.subject, record.stream, record.epoch, by=context.incarnation)
        self.epoch = EpochNumber(record.epoch + 1)
