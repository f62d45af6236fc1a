"""A stateless fragment: a plain loop of Spark batch jobs over the claimed segments.

It has no state of its own: where it stands is the head of its stream.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.keeper.records import EpochNumber
from rekindle.node.claims import Claims, Work
from rekindle.node.failures import damaged_input, spark_cause
from rekindle.node.jump import jump
from rekindle.node.rehearsal import rehearse
from rekindle.node.replay import batch_rows
from rekindle.node.worker import Context, Worker
from rekindle.plan import Fragment
from rekindle.recovery.placement import slots
from rekindle.recovery.policy import Jump, Situation
from rekindle.streams.writer import EpochWriter


class Stateless(Worker):
    def __init__(self, context: Context, fragment: Fragment) -> None:
        policy = fragment.recovery
        super().__init__(
            context, fragment.name, owned=not policy.all_compute, of=slots(context.pipeline, fragment.node)
        )
        self._fragment = fragment
        self._work: Work | None = None
        self._scratch = context.home.work / fragment.name / f"{context.incarnation}-0"

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
            prescribed=context.prescribed,
        )
        context.spark.sparkContext.setJobGroup(self.subject, f"stream {self.subject}")
        self.epoch = EpochNumber(self._join() + 1)
        while True:
            self._work = work = claims.next(self.epoch)
            if work is None:
                return
            self._compute_and_publish(work)
            self.epoch = EpochNumber(self.epoch + 1)

    def _join(self) -> EpochNumber:
        """Where its stream stands is where it goes on; only a gap is passed over first."""
        keeper, name = self.context.keeper, self.subject
        published, last = keeper.head(name), keeper.last_claim(name)
        claimed = last.epoch if last is not None else EpochNumber(0)
        intact = self.context.ownership.intact(name)
        now = Situation(published, claimed, EpochNumber(1), local=published, intact=intact)
        return jump(self.context, self._fragment) if isinstance(self._fragment.recovery.start(now), Jump) else published

    def rehearse(self, enough: Callable[[], bool]) -> bool:
        return rehearse(self.context, self._fragment, enough)

    def _compute_and_publish(self, work: Work) -> None:
        context, name = self.context, self._fragment.name
        writer = EpochWriter(context.home, name, work.epoch, context.incarnation, self.tries)
        computed = context.steps.computing(self.subject, self.epoch)
        writer.add_frame(batch_rows(context, self._fragment, work, self._scratch))
        computed()
        output = writer.finish()
        context.steps.at("before_publish", self.subject, self.epoch)
        if not context.keeper.publish(name, work.epoch, {name: output}, by=context.incarnation).won:
            writer.drop()
        context.steps.at("after_publish", self.subject, self.epoch)

    def cause(self, error: Exception) -> BaseException:
        return damaged_input(self.context.home, self._work) or spark_cause(error)
