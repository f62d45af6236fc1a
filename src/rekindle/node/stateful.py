"""A stateful fragment: one Structured Streaming query, fed by claims, whose batches become epochs.

A replica joins in four moves: start where its policy says (fork a checkpoint, restore one, replay from an older
claim, jump to the newest input), show the claim after it, start the query, and from then on publish each batch and
show the next claim. Epochs that are on record already are computed for their state only; their digest is compared
with the published one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from rekindle.errors import BrokenInvariant, RekindleError
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.node.claims import Claims, Work
from rekindle.node.failures import damaged_input, is_about_state, is_of_user, spark_cause
from rekindle.node.jump import jump
from rekindle.node.query import Query
from rekindle.node.rehearsal import rehearse
from rekindle.node.shipping import Shipping
from rekindle.node.worker import COMPUTING, JOINING, STANDBY, Context, Worker
from rekindle.plan import Fragment
from rekindle.recovery.memory import oldest_needed
from rekindle.recovery.policy import Fork, Jump, Replay, Restore, Situation, Start
from rekindle.state import checkpoint
from rekindle.streams.writer import EpochWriter, observe


class Stateful(Worker):
    def __init__(self, context: Context, fragment: Fragment) -> None:
        policy = fragment.recovery
        super().__init__(context, fragment.name, owned=not policy.all_compute, of=policy.replicas)
        self._fragment = fragment
        self._folder = context.home.work / fragment.name
        self._shipping = Shipping(context, fragment, policy.layers) if policy.layers is not None else None
        self._distrusted = 0  # 1: the checkpoints here; 2: those in the stores too
        self._started: Start | None = None
        self._failed_starts = 0  # in a row, before their first epoch: then the checkpoint is at fault
        self._query: Query | None = None

    def work(self) -> None:
        context, fragment = self.context, self._fragment
        self._query, self.role, self.epoch = None, JOINING, EpochNumber(0)
        self._claims = Claims(
            context.keeper,
            fragment,
            context.incarnation,
            context.stopping,
            settle_s=context.settings.settle_s,
            clock=context.monotonic,
            steps=context.steps,
            prescribed=context.prescribed,
        )
        self._root = self._folder / f"{context.incarnation}-{self.tries}"
        self.epoch = EpochNumber(self._join().epoch + 1)
        self._first = self.epoch
        self._first_own = True
        if self.epoch > self._published:
            self.role = COMPUTING
        self._query = Query(context, fragment, self._root, next=self._claims.next, take=self._take)
        try:
            self._query.run()
        finally:
            if self._shipping is not None:
                self._shipping.close()

    # -- standing by ---------------------------------------------------------------------------------

    def rehearse(self, enough: Callable[[], bool]) -> bool:
        return rehearse(self.context, self._fragment, enough)

    def stand_by(self) -> None:
        """Restore layers as they arrive, beside what every worker does."""
        if self._shipping is None:
            super().stand_by()
            return
        self._shipping.follow(self._folder / f"{self.context.incarnation}-0")
        try:
            super().stand_by()
        finally:
            self._shipping.stop_following()

    @property
    def position(self) -> int:
        return self._shipping.restored if self.role == STANDBY and self._shipping is not None else self.epoch

    # -- joining -------------------------------------------------------------------------------------

    def _join(self) -> checkpoint.Standing:
        keeper, place = self.context.keeper, self._root / "checkpoint"
        if self._root.exists():
            shutil.rmtree(self._root)
        self._root.mkdir(parents=True)
        self._published = keeper.head(self.subject)
        start = self._started = self._fragment.recovery.start(self._situation())
        match start:
            case Fork():
                stand = self._fork()
            case Restore():
                stand = self._restore()
            case Replay(base):
                checkpoint.create(place, base)
                stand = checkpoint.standing(place)
            case Jump():
                checkpoint.create(place, jump(self.context, self._fragment))
                stand = checkpoint.standing(place)
        keeper.event(
            "fragment_joined",
            self.subject,
            incarnation=self.context.incarnation,
            how=type(start).__name__.lower(),
            restored=stand.epoch,
            published=self._published,
            replays=max(0, self._published - stand.epoch),
        )
        return stand

    def _situation(self) -> Situation:
        keeper, name = self.context.keeper, self.subject
        last, oldest = keeper.last_claim(name), keeper.first_claim(name)
        memory = self.context.analysis.memories.get(name)
        origins = [] if self._distrusted else furthest_first(self._folder, exclude=self._root)
        safe = keeper.safe_point(name) if self._shipping is not None and self._distrusted < 2 else None
        return Situation(
            published=self._published,
            claimed=last.epoch if last is not None else EpochNumber(0),
            oldest_claim=oldest.epoch if oldest is not None else EpochNumber(1),
            local=checkpoint.standing(origins[0]).epoch if origins else None,
            intact=self.context.ownership.intact(name),
            safe=safe.epoch if safe is not None else None,
            depends_on=oldest_needed(keeper, name, memory, self._published) if memory is not None else None,
        )

    def _fork(self) -> checkpoint.Standing:
        """Fork the checkpoint that stands furthest and can be forked whole."""
        place = self._root / "checkpoint"
        for origin in furthest_first(self._folder, exclude=self._root):
            try:
                return checkpoint.fork(origin, place)
            except (BrokenInvariant, ValueError, OSError) as error:
                self.context.keeper.event("fork_failed", self.subject, origin=origin.parent.name, reason=str(error))
                shutil.rmtree(place, ignore_errors=True)
        self._distrusted = max(self._distrusted, 1)
        raise RekindleError(
            f"no checkpoint of {self.subject!r} on this host can be forked",
            detail=str(self._folder),
            hint="the next try starts from the stores or from the claims",
        )

    def _restore(self) -> checkpoint.Standing:
        if self._shipping is None:
            raise BrokenInvariant(f"{self.subject!r} has no stores to be restored from")
        return self._shipping.restore(self._root / "checkpoint")

    def cause(self, error: Exception) -> BaseException:
        """What was raised in the batch, not what Spark made of it. What cannot be read is not started from again."""
        query = self._query
        if query is not None and isinstance(query.raised, Exception):
            error = query.raised
        cause = damaged_input(self.context.home, query.work if query is not None else None) or spark_cause(error)
        from_checkpoint = isinstance(self._started, Fork | Restore)
        if from_checkpoint and query is not None and query.epoch == self._first and not is_of_user(cause):
            self._failed_starts += 1
        if from_checkpoint and (is_about_state(error) or self._failed_starts > 1):
            self._distrusted = 2 if isinstance(self._started, Restore) else max(self._distrusted, 1)
            self._failed_starts = 0
        return cause

    # -- one epoch -----------------------------------------------------------------------------------

    def _take(self, rows: DataFrame, work: Work) -> None:
        context, epoch = self.context, work.epoch
        if self._shipping is not None and epoch > self._first:
            # Spark has committed the epoch before this one. It was computed here: what a fork linked is shipped only
            # once it has been read, or damage on this disk would become a safe point.
            self._shipping.offer(self._root / "checkpoint", EpochNumber(epoch - 1))
        recorded = context.keeper.epoch(self.subject, epoch)
        if recorded is not None:
            self._replay(rows, recorded)
        else:
            self._publish(rows, epoch)
        if epoch > self._first and self._first:
            self._forget_others()
            self._first, self._distrusted = EpochNumber(0), 0
        self._failed_starts = 0
        self.epoch = EpochNumber(epoch + 1)

    def _publish(self, rows: DataFrame, epoch: EpochNumber) -> None:
        context, name = self.context, self.subject
        self.role = COMPUTING
        writer = EpochWriter(context.home, name, epoch, context.incarnation, self.tries)
        computed = context.steps.computing(name, epoch)
        writer.add_frame(rows)
        computed()
        output = replace(writer.finish(), watermark_us=self._query.watermark_us if self._query is not None else None)
        context.steps.at("before_publish", name, epoch)
        published = context.keeper.publish(name, epoch, {name: output}, by=context.incarnation)
        if not published.won:
            writer.drop()
            self._compare(output.digest, published.epochs[name])
        elif self._first_own:
            self._first_own = False
            context.keeper.event("first_epoch", name, epoch=epoch, incarnation=context.incarnation)
        context.steps.at("after_publish", name, epoch)

    def _replay(self, rows: DataFrame, recorded: Epoch) -> None:
        if self.role == JOINING and self.context.keeper.head(self.subject) <= recorded.epoch + 1:
            self.role = COMPUTING
        self._compare(observe(rows), recorded)

    def _compare(self, digest: str, recorded: Epoch) -> None:
        """The published epoch stands; that it came out differently now is worth knowing. What a replica computes that
        started without the older state is incomplete until it has caught up."""
        if isinstance(self._started, Replay) and self._started.base and recorded.epoch <= self._published:
            return
        if digest != recorded.output.digest:
            self.context.keeper.event(
                "output_differs",
                self.subject,
                epoch=recorded.epoch,
                published=recorded.output.digest,
                recomputed=digest,
                incarnation=self.context.incarnation,
            )

    def _forget_others(self) -> None:
        """Remove the folders of replicas that are over, once this one has committed an epoch of its own."""
        over = {m.incarnation for m in self.context.keeper.members(live=False) if m.state in ("left", "fenced")}
        for other in roots(self._folder):
            incarnation, attempt = replica(other)
            if incarnation in over or (incarnation == self.context.incarnation and attempt < self.tries):
                shutil.rmtree(other, ignore_errors=True)


def replica(root: Path) -> tuple[int, int]:
    """Incarnation and try of a replica's folder: later ones are greater."""
    incarnation, attempt = root.name.split("-")
    return int(incarnation), int(attempt)


def roots(folder: Path) -> Iterable[Path]:
    """The folders of the replicas that work, or worked, in ``folder``."""
    return [root for root in folder.iterdir() if not root.name.startswith(".")] if folder.exists() else []


def furthest_first(folder: Path, *, exclude: Path) -> list[Path]:
    """The checkpoints of the replicas that worked in ``folder``, those that have committed most first."""
    found = []
    for root in roots(folder):
        if root != exclude and (root / "checkpoint" / checkpoint.BASE).exists():
            try:
                found.append((checkpoint.standing(root / "checkpoint").epoch, replica(root), root))
            except (BrokenInvariant, ValueError, OSError):
                continue  # not a usable checkpoint; the claims rebuild it
    return [root / "checkpoint" for epoch, _, root in sorted(found, reverse=True) if epoch > 0]
