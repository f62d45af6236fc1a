"""A stateful fragment: one Structured Streaming query, fed by claims, whose batches become epochs.

A replica joins in four moves: fork the checkpoint that stands furthest, show the claim after it, start the query,
and from then on publish each batch and show the next claim, all in the query's own thread. Epochs that are on
record already are computed for their state only; their digest is compared with the published one.
"""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.node.claims import Claims, Work
from rekindle.node.failures import damaged_input, is_about_state, is_of_user, spark_cause
from rekindle.node.traits import run_operators, streaming_frame, watermarked
from rekindle.node.worker import Context, Worker
from rekindle.plan import Fragment
from rekindle.state import checkpoint
from rekindle.state.inbox import Inbox
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.writer import EpochWriter, observe

POLL_S = 0.02
WATCH_S = 0.1


class Stateful(Worker):
    def __init__(self, context: Context, fragment: Fragment) -> None:
        super().__init__(context, fragment.name)
        self._fragment = fragment
        self._folder = context.home.work / fragment.name
        self._rebuild = False
        self._forked = False
        self._failed_forks = 0  # in a row, before their first epoch: then the checkpoint is at fault
        self._work: Work | None = None
        self._raised: BaseException | None = None
        self._drained = threading.Event()

    def work(self) -> None:
        context, fragment = self.context, self._fragment
        self._raised, self._work = None, None
        self._drained.clear()
        self._claims = Claims(
            context.keeper,
            fragment,
            context.incarnation,
            context.stopping,
            settle_s=context.settings.settle_s,
            clock=context.monotonic,
            steps=context.steps,
        )
        self._root = self._folder / f"{context.incarnation}-{self.tries}"
        self._checkpoint = self._root / "checkpoint"
        stand = self._join()
        self.epoch = EpochNumber(stand.epoch + 1)
        self._first = self.epoch
        schemas = {i: arrow_schema(context.analysis.schemas[i]) for i in fragment.inputs}
        shown_s = checkpoint.newest_shown_s(self._checkpoint)
        self._inbox = Inbox(self._root, schemas, lambda: max(context.clock(), shown_s))
        if self._show_next() is None:
            return
        query = self._start()
        try:
            self._watch(query)
        finally:
            query.stop()

    def cause(self, error: Exception) -> BaseException:
        """What was raised in the batch, not what Spark made of it; and a state that cannot be read is rebuilt."""
        if self._raised is not None:
            error = self._raised if isinstance(self._raised, Exception) else error
        cause = damaged_input(self.context.home, self._work) or spark_cause(error)
        if self._forked and self.epoch == self._first and not is_of_user(cause):
            self._failed_forks += 1
        if is_about_state(error) or self._failed_forks > 1:
            self._rebuild, self._failed_forks = True, 0
        return cause

    def _join(self) -> checkpoint.Standing:
        """Fork the checkpoint that stands furthest, or start an empty one."""
        if self._root.exists():
            shutil.rmtree(self._root)
        self._root.mkdir(parents=True)
        stand = None if self._rebuild else self._fork()
        self._forked = stand is not None
        if stand is None:
            checkpoint.create(self._checkpoint, EpochNumber(0))
            stand = checkpoint.standing(self._checkpoint)
        head = self.context.keeper.head(self.subject)
        self.context.keeper.event(
            "fragment_rebuilt" if self._rebuild else "fragment_joined",
            self.subject,
            incarnation=self.context.incarnation,
            restored=stand.epoch,
            published=head,
            replays=max(0, head - stand.epoch),
        )
        self._rebuild = False
        return stand

    def _fork(self) -> checkpoint.Standing | None:
        """Fork the checkpoint that stands furthest and can be forked whole; None if there is none."""
        for origin in furthest_first(self._folder, exclude=self._root):
            try:
                return checkpoint.fork(origin, self._checkpoint)
            except (BrokenInvariant, ValueError, OSError) as error:
                self.context.keeper.event("fork_failed", self.subject, origin=origin.parent.name, reason=str(error))
                shutil.rmtree(self._checkpoint, ignore_errors=True)
        return None

    def _start(self) -> StreamingQuery:
        context, fragment = self.context, self._fragment
        spark = context.spark.newSession()
        spark.conf.set("spark.sql.shuffle.partitions", str(fragment.partitions or context.cores))
        analysis = context.analysis
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
            self._epoch(rows, checkpoint.epoch_of(self._checkpoint, batch))
        except BaseException as error:
            self._raised = error
            raise

    def _epoch(self, rows: DataFrame, epoch: EpochNumber) -> None:
        context, name = self.context, self.subject
        if self._work is None or epoch != self._work.epoch:
            raise BrokenInvariant(
                f"Spark computes epoch {epoch} of {name}, but the claim in its inbox is another",
                detail=f"claimed: {self._work.epoch if self._work else 'nothing'}; {self._checkpoint}",
            )
        recorded = context.keeper.epoch(name, epoch)
        if recorded is not None:
            self._replay(rows, recorded)
        else:
            self._publish(rows, epoch)
        self._inbox.retire(epoch)
        checkpoint.trim_source_logs(self._checkpoint, epoch)
        if epoch > self._first:
            self._forget_others()
        self._failed_forks = 0
        self.epoch = EpochNumber(epoch + 1)
        if self._show_next() is None:
            self._drained.set()

    def _publish(self, rows: DataFrame, epoch: EpochNumber) -> None:
        context, name = self.context, self.subject
        writer = EpochWriter(context.home, name, epoch, context.incarnation, self.tries)
        computed = context.steps.computing(name, epoch)
        writer.add_frame(rows)
        computed()
        output = writer.finish()
        context.steps.at("before_publish", name, epoch)
        published = context.keeper.publish(name, epoch, {name: output}, by=context.incarnation)
        if not published.won:
            writer.drop()
            self._compare(output.digest, published.epochs[name])
        context.steps.at("after_publish", name, epoch)

    def _replay(self, rows: DataFrame, recorded: Epoch) -> None:
        self._compare(observe(rows), recorded)

    def _compare(self, digest: str, recorded: Epoch) -> None:
        """The published epoch stands; that it came out differently now is worth knowing."""
        if digest != recorded.output.digest:
            self.context.keeper.event(
                "output_differs",
                self.subject,
                epoch=recorded.epoch,
                published=recorded.output.digest,
                recomputed=digest,
                incarnation=self.context.incarnation,
            )

    def _show_next(self) -> Work | None:
        """Wait for the next claim and show it to Spark. None when the node is stopping."""
        context = self.context
        work = self._claims.next(self.epoch)
        if work is not None:
            self._inbox.show(work.epoch, context.home, work.inputs)
            self._work = work
        return work

    def _watch(self, query: StreamingQuery) -> None:
        """Until the query fails, or has committed its last batch before a stop."""
        while query.isActive:
            drained = self._drained.wait(WATCH_S)
            if drained and checkpoint.standing(self._checkpoint).epoch >= self.epoch - 1:
                return
            if drained:
                time.sleep(POLL_S)
        error = query.exception()
        raise error if error is not None else BrokenInvariant(f"the query of {self.subject} ended by itself")

    def _forget_others(self) -> None:
        """Remove the folders of older replicas, once this one has committed an epoch of its own."""
        for other in self._folder.iterdir():
            if replica(other) < replica(self._root):
                shutil.rmtree(other, ignore_errors=True)
        self._first = EpochNumber(1 << 62)


def replica(root: Path) -> tuple[int, int]:
    """Incarnation and try of a replica's folder: later ones are greater."""
    incarnation, attempt = root.name.split("-")
    return int(incarnation), int(attempt)


def furthest_first(folder: Path, *, exclude: Path) -> list[Path]:
    """The checkpoints of the replicas that worked in ``folder``, those that have committed most first."""
    found = []
    for root in folder.iterdir():
        if root != exclude and (root / "checkpoint" / checkpoint.BASE).exists():
            try:
                found.append((checkpoint.standing(root / "checkpoint").epoch, replica(root), root))
            except (BrokenInvariant, ValueError, OSError):
                continue  # not a usable checkpoint; the claims rebuild it
    return [root / "checkpoint" for epoch, _, root in sorted(found, reverse=True) if epoch > 0]
