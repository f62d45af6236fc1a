"""Published epochs, computed once more from a cut and the claims, compared with what is on record.

What is recomputed is a deterministic fragment. What a source brought and what a nondeterministic fragment logged cannot
be computed again by design: there the digest on record is compared with the rows of the segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rekindle.errors import BrokenInvariant, RekindleError, SegmentDamaged
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import Epoch, EpochNumber, SafePoint
from rekindle.node.bench import Bench
from rekindle.node.claims import Work
from rekindle.node.replay import Replay
from rekindle.plan import Fragment
from rekindle.recovery.memory import Memory, oldest_needed
from rekindle.state.restore import restore
from rekindle.state.stores import Store
from rekindle.streams.differences import differing, digests
from rekindle.streams.digest import HIGH, LOW, ROWS, digest
from rekindle.streams.segments import verify
from rekindle.verify.files import is_kept
from rekindle.verify.findings import DIGESTS, NOTE, RECOMPUTED, WRONG, Finding
from rekindle.verify.reach import Reach, Stretch, reach_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SEGMENTS_A_JOB = 2000
Tick = Callable[[], None]


class Quiet:
    """Restoring writes events where a copy is bad; an audit changes no record, and tells of that itself."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def safe_points(self, fragment: str) -> list[SafePoint]:
        return self._keeper.safe_points(fragment)

    def event(self, kind: str, subject: str, **detail: Any) -> None:
        """Not on record."""


class Recompute:
    """``changed`` says how the pipeline file stands to the one that was last run, for hints."""

    def __init__(
        self, bench: Bench, ledger: Ledger, keeper: Keeper, scratch: Path, stores: dict[str, list[Store]], changed: str
    ) -> None:
        self._bench = bench
        self._home: Home = bench.home
        self._ledger = ledger
        self._keeper = keeper
        self._scratch = scratch
        self._stores = stores
        self._changed = changed

    def reach(self, fragment: Fragment, wanted: range) -> Reach:
        memory = self._bench.analysis.memories.get(fragment.name)
        depends_on: Callable[[EpochNumber], EpochNumber] | None = None
        if memory is not None and fragment.stateful:
            depends_on = partial(self._depends_on, fragment.name, memory)
        return reach_of(self._ledger, fragment.name, wanted, stateful=fragment.stateful, depends_on=depends_on)

    def _depends_on(self, fragment: str, memory: Memory, head: EpochNumber) -> EpochNumber:
        try:
            return oldest_needed(self._keeper, fragment, memory, head)
        except BrokenInvariant:
            return EpochNumber(1)  # a record that it goes by is damaged or trimmed: then nothing is known

    def fragment(self, fragment: Fragment, reach: Reach, tick: Tick) -> list[Finding]:
        """Compute what is in reach; ``tick`` is called for each epoch. One finding for the first difference."""
        one = _One(self, fragment, tick)
        for stretch in reach.stretches:
            one.stretch(stretch)
        return one.findings()

    def digests(self, stream: str, epochs: Sequence[Epoch]) -> list[Finding]:
        """Epochs that are not recomputed: whether the digest on record is that of the rows in the segments."""
        found: list[Finding] = []
        schema = self._bench.analysis.schemas[stream]
        plain = [e for e in epochs if e.output.segments and "files:" not in e.output.digest]
        for page in _pages(plain):
            good = {epoch.epoch: files for epoch in page if (files := self._files(epoch)) is not None}
            if not good:
                continue
            parts = digests(self._bench.spark, schema, [f for files in good.values() for f in files])
            for epoch in page:
                if epoch.epoch not in good:
                    continue  # damaged: that is told of the segment
                each = [parts.get(file.name, (0, 0, 0)) for file in good[epoch.epoch]]
                rows, high, low = (sum(part[i] for part in each) for i in range(3))
                here = digest({ROWS: rows, HIGH: high, LOW: low})
                if here != epoch.output.digest:
                    found.append(wrong_record(epoch, here))
        return found

    def _files(self, epoch: Epoch) -> list[Path] | None:
        try:
            return [verify(self._home, s, stream=epoch.stream, epoch=epoch.epoch) for s in epoch.output.segments]
        except SegmentDamaged:
            return None


class _One:
    """One fragment: where its epochs differ first, and how many do."""

    def __init__(self, shared: Recompute, fragment: Fragment, tick: Tick) -> None:
        self._shared = shared
        self._fragment = fragment
        self._tick = tick
        self._replay = Replay(shared._bench, fragment, shared._scratch / fragment.name)
        self._first: Finding | None = None
        self._differ = 0
        self._failed: list[Finding] = []

    def stretch(self, stretch: Stretch) -> None:
        steps = {step.claim.epoch: step for step in stretch.steps}
        works = [Work(step.claim, step.inputs) for step in stretch.steps]

        def take(rows: DataFrame, work: Work) -> None:
            written = self._replay.write(rows, work)
            step = steps[work.epoch]
            if step.compared and written.output.digest != step.published.output.digest:
                self._differ += 1
                if self._first is None:
                    self._first = self._difference(step.published, written.output.digest, written.files)
            written.drop()
            if step.compared:
                self._tick()

        start = None if stretch.point is None else partial(self._restore, stretch.point)
        try:
            self._replay.run(works, take, start=start)
        except Exception as error:  # of the user's code, Spark or the stores: whatever it is, it is told
            self._failed.append(self._failure(stretch, error))

    def findings(self) -> list[Finding]:
        if self._first is not None and self._differ > 1:
            first = self._first
            what = f"{first.what}; so do {self._differ - 1} epochs after it"
            self._first = replace(first, what=what)
        return [*([self._first] if self._first is not None else []), *self._failed]

    def _restore(self, point: SafePoint, target: Path) -> None:
        shared = self._shared
        restore(point.fragment, point.epoch, shared._stores.get(point.fragment, []), Quiet(shared._keeper), target)

    def _difference(self, published: Epoch, here: str, files: Sequence[Path]) -> Finding:
        shared, name, number = self._shared, self._fragment.name, published.epoch
        recorded = shared._files(published)
        if recorded is None:
            what = f"epoch {number} of {name!r} comes out with another digest, and its segments are damaged"
            where = f"published {published.output.digest}, recomputed {here}"
            return Finding(WRONG, RECOMPUTED, name, number, what, where, "see the finding about its segments")
        schema = shared._bench.analysis.schemas[name]
        rows = differing(shared._bench.spark, schema, recorded, files)
        if not rows.only_expected and not rows.only_found:
            return wrong_record(published, here)
        operators = ", ".join(f"{o.name} at {o.place}" for o in self._fragment.operators)
        return Finding(
            WRONG,
            RECOMPUTED,
            name,
            number,
            f"epoch {number} of {name!r} comes out differently: {rows.only_expected} published rows are not computed "
            f"again, {rows.only_found} computed rows were not published",
            f"published {published.output.digest}, recomputed {here}; {operators}",
            f"{shared._changed}; if the code is the same, an operator is not deterministic: "
            "rekindle audit --determinism names it",
            rows.expected,
            rows.found,
        )

    def _failure(self, stretch: Stretch, error: Exception) -> Finding:
        name = self._fragment.name
        first, last = stretch.steps[0].claim.epoch, stretch.steps[-1].claim.epoch
        which = f"epochs {first} to {last} of {name!r}"
        if self._is_gone(stretch):
            what = f"{which} were trimmed while they were computed again: they are out of reach now"
            return Finding(NOTE, RECOMPUTED, name, first, what, str(error).splitlines()[0], "audit again")
        lines = str(error).splitlines() or [type(error).__name__]
        reason = error.primary if isinstance(error, RekindleError) else lines[0]
        where = error.detail if isinstance(error, RekindleError) else "\n".join(lines[1:])
        hint = (error.hint if isinstance(error, RekindleError) else "") or self._shared._changed
        return Finding(WRONG, RECOMPUTED, name, first, f"{which} cannot be computed again: {reason}", where, hint)

    def _is_gone(self, stretch: Stretch) -> bool:
        keeper = self._shared._keeper
        if stretch.point is not None and not is_kept(stretch.point, keeper):
            return True
        oldest = {name: keeper.oldest(name) for step in stretch.steps for name in step.inputs}
        return any(r.epoch < oldest[name] for step in stretch.steps for name, of in step.inputs.items() for r in of)


def wrong_record(epoch: Epoch, digest: str) -> Finding:
    """The rows of an epoch are what they should be, and its record says something else."""
    what = f"the digest on record of epoch {epoch.epoch} of {epoch.stream!r} is not that of its rows"
    where = f"on record {epoch.output.digest}, the rows have {digest}"
    hint = "the record was changed behind the keeper's back; bring the keeper's database back from a copy"
    return Finding(WRONG, DIGESTS, epoch.stream, epoch.epoch, what, where, hint)


def _pages(epochs: Sequence[Epoch]) -> list[list[Epoch]]:
    pages: list[list[Epoch]] = []
    size = SEGMENTS_A_JOB
    for epoch in epochs:
        if size >= SEGMENTS_A_JOB:
            pages.append([])
            size = 0
        pages[-1].append(epoch)
        size += len(epoch.output.segments)
    return pages
