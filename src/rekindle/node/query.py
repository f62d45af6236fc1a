"""One run of a stateful fragment's Structured Streaming query, fed by claims, one claim a batch.

The next claim is shown at the end of a batch, in the query's own thread, so Spark's batches are exactly the claims.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import EpochNumber
from rekindle.node.claims import Work
from rekindle.node.engine import Engine
from rekindle.node.session import STATE_PROVIDERS
from rekindle.node.traits import run_operators, streaming_frame, watermarked
from rekindle.plan import Fragment
from rekindle.state import checkpoint
from rekindle.state.inbox import Inbox
from rekindle.streams.arrow import arrow_schema

POLL_S = 0.02
WATCH_S = 0.1


class Query:
    """Runs on the checkpoint in ``root``. ``next`` brings the claim of an epoch, or None to end after the last one;
    ``take`` does with an epoch's rows what is to be done. Both are called in the query's own thread.
    """

    def __init__(
        self,
        engine: Engine,
        fragment: Fragment,
        root: Path,
        *,
        next: Callable[[EpochNumber], Work | None],
        take: Callable[[DataFrame, Work], None],
    ) -> None:
        self._engine = engine
        self._fragment = fragment
        self._root = root
        self._checkpoint = root / "checkpoint"
        self._next = next
        self._take = take
        self._drained = threading.Event()
        self.epoch = EpochNumber(checkpoint.standing(self._checkpoint).epoch + 1)
        self.work: Work | None = None
        self.raised: BaseException | None = None
        self.watermark_us: int | None = None
        """The watermark that the epoch in hand goes by."""

    def run(self) -> None:
        """Until ``next`` brings nothing more and the last batch is committed. Raises what the query failed with."""
        schemas = {i: arrow_schema(self._engine.analysis.schemas[i]) for i in self._fragment.inputs}
        checkpoint.relocate(self._checkpoint)
        shown_s = checkpoint.newest_shown_s(self._checkpoint)
        self._inbox = Inbox(self._root, schemas, lambda: max(self._engine.clock(), shown_s))
        if not self._show_next():
            return
        query = self._start()
        try:
            self._watch(query)
        finally:
            query.stop()

    def _start(self) -> StreamingQuery:
        engine, fragment = self._engine, self._fragment
        spark = engine.spark.newSession()
        spark.conf.set("spark.sql.shuffle.partitions", str(fragment.partitions or engine.cores))
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_PROVIDERS[fragment.state])
        analysis = engine.analysis
        frames = {
            i: watermarked(
                streaming_frame(spark, analysis.schemas[i], self._inbox.glob(i)), analysis.watermarks.get(i, {})
            )
            for i in fragment.inputs
        }
        writer = run_operators(fragment, frames).writeStream.outputMode(fragment.output_mode)
        return writer.option("checkpointLocation", str(self._checkpoint)).foreachBatch(self._batch).start()

    def _batch(self, rows: DataFrame, batch: int) -> None:
        try:
            if self._fragment.has_watermark:
                self.watermark_us = checkpoint.watermark_us(self._checkpoint, batch)
            self._one_epoch(rows, checkpoint.epoch_of(self._checkpoint, batch))
        except BaseException as error:
            self.raised = error
            raise

    def _one_epoch(self, rows: DataFrame, epoch: EpochNumber) -> None:
        if self.work is None or epoch != self.work.epoch:
            raise BrokenInvariant(
                f"Spark computes epoch {epoch} of {self._fragment.name}, but the claim in its inbox is another",
                detail=f"claimed: {self.work.epoch if self.work else 'nothing'}; {self._checkpoint}",
            )
        self._take(rows, self.work)
        self._inbox.retire(epoch)
        checkpoint.trim_source_logs(self._checkpoint, epoch)
        self.epoch = EpochNumber(epoch + 1)
        if not self._show_next():
            self._drained.set()

    def _show_next(self) -> bool:
        work = self._next(self.epoch)
        if work is not None:
            self._inbox.show(work.epoch, self._engine.home, work.inputs)
            self.work = work
        return work is not None

    def _watch(self, query: StreamingQuery) -> None:
        """Until the query fails, or has committed its last batch before a stop."""
        while query.isActive:
            drained = self._drained.wait(WATCH_S)
            if drained and checkpoint.standing(self._checkpoint).epoch >= self.epoch - 1:
                return
            if drained:
                time.sleep(POLL_S)
        error = query.exception()
        name = self._fragment.name
        raise error if error is not None else BrokenInvariant(f"the query of {name} ended by itself")
