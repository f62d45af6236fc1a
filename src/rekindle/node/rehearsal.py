"""A rehearsal: a warm node computes a few epochs that are published already, and throws the result away.

It starts with an empty state, so what comes out means nothing. But Spark has then built and compiled the fragment's
plan, the JVM has run in everything that an epoch takes, and taking over starts from there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from rekindle.keeper.records import EpochNumber
from rekindle.node.claims import Work, read_claim
from rekindle.node.query import Query
from rekindle.node.worker import Context
from rekindle.plan import Fragment
from rekindle.state import checkpoint
from rekindle.streams.writer import EpochWriter

EPOCHS = 6


class Rehearsal:
    """``scratch`` must be on the home's file system, and is removed afterwards."""

    def __init__(self, context: Context, fragment: Fragment, scratch: Path) -> None:
        self._context = context
        self._fragment = fragment
        self._root = scratch
        self._home = replace(context.home, root=scratch)

    def run(self, enough: Callable[[], bool]) -> bool:
        """Compute them as a streaming query, or fewer if it is ``enough``; False if there was nothing to compute."""
        works = {work.epoch: work for work in self._works()}
        if not works:
            return False
        with self._stage():
            checkpoint.create(self._root / "checkpoint", EpochNumber(min(works) - 1))
            query = Query(
                self._context,
                self._fragment,
                self._root,
                next=lambda epoch: None if enough() else works.get(epoch),
                take=self.write_and_drop,
            )
            query.run()
        return True

    def each(self, compute: Callable[[Work], DataFrame], enough: Callable[[], bool]) -> bool:
        """Compute them one by one, or fewer if it is ``enough``; False if there was nothing to compute."""
        works = self._works()
        with self._stage():
            for work in works:
                if not enough():
                    self.write_and_drop(compute(work), work)
        return bool(works)

    def write_and_drop(self, rows: DataFrame, work: Work) -> None:
        writer = EpochWriter(self._home, self._fragment.name, work.epoch, self._context.incarnation, 0)
        writer.add_frame(rows)
        writer.finish()
        writer.drop()

    @contextmanager
    def _stage(self) -> Iterator[None]:
        shutil.rmtree(self._root, ignore_errors=True)
        (self._root / "streams").mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self._root, ignore_errors=True)

    def _works(self) -> list[Work]:
        """The newest epochs that are published, to be computed once more; none if there is none yet."""
        keeper, name = self._context.keeper, self._fragment.name
        head = keeper.head(name)
        first = max(1, head - EPOCHS + 1)
        claims = [keeper.claim_of(name, EpochNumber(e)) for e in range(first, head + 1)]
        return [read_claim(keeper, claim) for claim in claims if claim is not None]


def rehearse(context: Context, fragment: Fragment, act: Callable[[Rehearsal], bool]) -> bool:
    """Let ``act`` rehearse; whether there was something to try. A rehearsal that fails is told, and is no obstacle:
    whoever takes over cold takes over all the same, and what is wrong with an epoch its owner will say.
    """
    scratch = context.home.work / ".scratch" / f"rehearsal-{context.incarnation}" / fragment.name
    try:
        return act(Rehearsal(context, fragment, scratch))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:500]
        context.keeper.event("rehearsal_failed", fragment.name, reason=reason, incarnation=context.incarnation)
        return True
