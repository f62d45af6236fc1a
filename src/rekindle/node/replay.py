"""A replay: epochs of one fragment are computed once more from their claims, in a scratch folder, and not published.

That is what a replica does that joins, without the joining: it starts from an old cut, takes the claims on record, and
whoever asked for it decides what is done with the rows. A rehearsal throws them away, an audit compares them with what
was published, a determinism check with another replay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import Epoch, EpochNumber, Incarnation, Output
from rekindle.node.claims import Work
from rekindle.node.engine import Engine
from rekindle.node.failures import spark_cause
from rekindle.node.query import Query
from rekindle.node.traits import run_operators, watermarked
from rekindle.plan import Fragment
from rekindle.state import checkpoint
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.segments import verify
from rekindle.streams.writer import EpochWriter

NOBODY = Incarnation(0)
Take = Callable[[DataFrame, Work], None]
Start = Callable[[Path], object]


def _never() -> bool:
    return False


class Replay:
    """``scratch`` must be on the home's file system, is made anew, and is removed afterwards."""

    def __init__(self, engine: Engine, fragment: Fragment, scratch: Path) -> None:
        self._engine = engine
        self._fragment = fragment
        self._root = scratch
        self._home = replace(engine.home, root=scratch)

    def run(
        self, works: Sequence[Work], take: Take, *, start: Start | None = None, enough: Callable[[], bool] = _never
    ) -> None:
        """Compute ``works``, which follow on each other, or fewer if it is ``enough``; ``take`` gets the rows of each.

        ``start`` makes the checkpoint of the epoch before the first one, in the folder that it is given; the state is
        empty there unless it is said. Raises what the computation failed with, as a person should read it.
        """
        if not works:
            return
        with self._stage():
            if self._fragment.stateful:
                self._stream(works, take, start, enough)
            else:
                self._batches(works, take, enough)

    def write(self, rows: DataFrame, work: Work) -> Written:
        """Compute the rows of an epoch into segments of the scratch folder."""
        writer = EpochWriter(self._home, self._fragment.name, work.epoch, NOBODY, 0)
        writer.add_frame(rows)
        return Written(writer, writer.finish(), self._root)

    def _stream(self, works: Sequence[Work], take: Take, start: Start | None, enough: Callable[[], bool]) -> None:
        place, by_epoch = self._root / "checkpoint", {work.epoch: work for work in works}
        base = EpochNumber(works[0].epoch - 1)
        if start is None:
            checkpoint.create(place, base)
        else:
            start(place)
            stands = checkpoint.standing(place).epoch
            if stands != base:
                raise BrokenInvariant(
                    f"a replay of {self._fragment.name!r} from epoch {base + 1} starts from a checkpoint at {stands}",
                    detail=str(place),
                )
        query = Query(
            self._engine,
            self._fragment,
            self._root,
            next=lambda epoch: None if enough() else by_epoch.get(epoch),
            take=take,
        )
        try:
            query.run()
        except Exception as error:
            raise spark_cause(query.raised if isinstance(query.raised, Exception) else error) from error

    def _batches(self, works: Sequence[Work], take: Take, enough: Callable[[], bool]) -> None:
        for work in works:
            if enough():
                return
            try:
                take(batch_rows(self._engine, self._fragment, work, self._root / "empty"), work)
            except Exception as error:
                raise spark_cause(error) from error

    @contextmanager
    def _stage(self) -> Iterator[None]:
        shutil.rmtree(self._root, ignore_errors=True)
        (self._root / "streams").mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self._root, ignore_errors=True)


class Written:
    """An epoch that was computed: what it contains, and the paths of its segments until it is dropped."""

    def __init__(self, writer: EpochWriter, output: Output, root: Path) -> None:
        self._writer = writer
        self.output = output
        self.files = tuple(root / segment.path for segment in output.segments)

    def drop(self) -> None:
        self._writer.drop()


def batch_rows(engine: Engine, fragment: Fragment, work: Work, scratch: Path) -> DataFrame:
    """The output of a stateless fragment for one claim. Every segment is verified first; ``scratch`` is for files
    that stand for inputs without rows."""
    frames = {i: _frame(engine, i, work.inputs.get(i, ()), scratch) for i in fragment.inputs}
    return run_operators(fragment, frames)


def _frame(engine: Engine, name: str, records: Sequence[Epoch], scratch: Path) -> DataFrame:
    schema = engine.analysis.schemas[name]
    paths = [str(verify(engine.home, s, stream=r.stream, epoch=r.epoch)) for r in records for s in r.output.segments]
    if not paths:
        scratch.mkdir(parents=True, exist_ok=True)
        empty = scratch / f"{name}.parquet"
        if not empty.exists():
            pq.write_table(arrow_schema(schema).empty_table(), empty)
        paths = [str(empty)]
    frame = engine.spark.read.schema(schema).parquet(*paths)
    return watermarked(frame, engine.analysis.watermarks.get(name, {}))
