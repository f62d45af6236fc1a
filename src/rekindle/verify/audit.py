"""The audit: a home, live or stopped, checked against its own records. Nothing in it is changed.

Three parts: the invariants over the records; every segment and every layer against its checksum; and published epochs
computed once more, as a replica does that joins, and compared. See ``invariants``, ``files`` and ``recompute``.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import DeclarationError, HomeUnusable
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import Epoch
from rekindle.state.stores import Store, open_stores
from rekindle.verify.code import Code
from rekindle.verify.files import check_layers, check_segments, stray_segments
from rekindle.verify.findings import DIGESTS, LAYERS, NOTE, RECOMPUTED, RECORDS, SEGMENTS, WRONG, Finding, Report
from rekindle.verify.invariants import check_records

if TYPE_CHECKING:
    from rekindle.node.bench import Bench
    from rekindle.plan import Fragment
    from rekindle.verify.recompute import Recompute

HOME_STORE = "backup"
Tell = Callable[[str, int, int], None]
"""What is checked now, how much of it is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which epochs: those of ``streams`` (all, if it is empty), from ``first`` to ``through``, or the ``last`` ones."""

    streams: frozenset[str] = frozenset()
    first: int = 1
    through: int | None = None
    last: int | None = None

    def of(self, ledger: Ledger, stream: str) -> range:
        """The wanted epochs of a stream that were ever published."""
        head = ledger.head(stream)
        first = max(self.first, head - self.last + 1) if self.last is not None else self.first
        return range(first, min(head, head if self.through is None else self.through) + 1)

    def wants(self, stream: str) -> bool:
        return not self.streams or stream in self.streams


class Audit:
    """``code`` is None where nothing shall be recomputed."""

    def __init__(self, home: Home, keeper: Keeper, wish: Wish, code: Code | None, tell: Tell) -> None:
        self._home = home
        self._keeper = keeper
        self._wish = wish
        self._code = code
        self._tell = tell

    def run(self) -> Report:
        report = Report()
        self._tell("records", 0, 1)
        ledger = self._keeper.ledger()
        check_wish(ledger, self._wish)
        count = sum(map(len, ledger.epochs.values())) + sum(map(len, ledger.claims.values()))
        report.add(RECORDS, "all", count + len(ledger.damaged), "claims and epochs", check_records(ledger))
        self._tell("records", 1, 1)
        self._segments(ledger, report)
        stores = self._layers(ledger, report)
        if self._code is not None:
            try:
                with scratch_of(self._home) as scratch, self._code.bench(ledger, scratch) as bench:
                    self._recompute(self._code, bench, ledger, scratch, stores, report)
            except DeclarationError as error:  # of the operators: what was checked before is worth knowing all the same
                what = f"nothing is recomputed: {error.primary}"
                report.findings.append(Finding(WRONG, RECOMPUTED, "all", 0, what, error.detail, error.hint))
        return report

    def _wanted(self, ledger: Ledger, stream: str) -> list[Epoch]:
        wanted = self._wish.of(ledger, stream)
        return [epoch for epoch in ledger.epochs.get(stream, ()) if epoch.epoch in wanted]

    # -- files -----------------------------------------------------------------------------------------

    def _segments(self, ledger: Ledger, report: Report) -> None:
        wanted = {s: self._wanted(ledger, s) for s in sorted(ledger.streams) if self._wish.wants(s)}
        counts = {stream: sum(len(e.output.segments) for e in epochs) for stream, epochs in wanted.items()}
        total = sum(counts.values())
        tick = self._ticks(SEGMENTS, total)
        for stream, epochs in wanted.items():
            findings = check_segments(self._home, self._keeper, epochs, tick)
            report.add(SEGMENTS, stream, counts[stream], "segments", findings)
        report.findings.extend(stray_segments(self._home, ledger))

    def _layers(self, ledger: Ledger, report: Report) -> dict[str, list[Store]]:
        points = {f: points for f, points in sorted(ledger.safe_points.items()) if self._wish.wants(f)}
        tick = self._ticks(LAYERS, sum(map(len, points.values())))
        opened = {}
        for fragment, kept in points.items():
            opened[fragment] = self._open(fragment, {store for point in kept for store in point.stores})
            count, findings = check_layers(fragment, kept, opened[fragment], self._keeper, tick)
            report.add(LAYERS, fragment, count, "objects", findings, f"{len(kept)} safe points")
        return opened

    def _open(self, fragment: str, recorded: Collection[str]) -> list[Store]:
        """The stores of a fragment: those that its policy names, which may know a password, and those on record."""
        stream = self._code.pipeline.streams.get(fragment) if self._code is not None else None
        layers = stream.recovery.layers if stream is not None else None
        urls = list(layers.stores) if layers is not None else []
        stores = open_stores(urls or [str(self._home.root / HOME_STORE)], self._home)
        known = {store.name for store in stores}
        for name in sorted(set(recorded) - known):
            with suppress(DeclarationError):  # that it cannot be opened is told of each layer in it
                stores += open_stores([name], self._home)
        return stores

    # -- epochs ----------------------------------------------------------------------------------------

    def _recompute(
        self, code: Code, bench: Bench, ledger: Ledger, scratch: Path, stores: dict[str, list[Store]], report: Report
    ) -> None:
        from rekindle.verify.recompute import Recompute

        work = Recompute(bench, ledger, self._keeper, scratch, stores, code.changed)
        fragments = {fragment.name: fragment for fragment in bench.analysis.fragments}
        for stream, record in sorted(ledger.streams.items()):
            if not self._wish.wants(stream):
                continue
            epochs = self._wanted(ledger, stream)
            why_not = _why_not(stream, fragments, bench)
            if stream in bench.analysis.schemas and (other := _other_schema(stream, record.schema, bench)) is not None:
                report.add(RECOMPUTED, stream, 0, "epochs", [other])
            elif not why_not:
                self._fragment(fragments[stream], ledger, work, report)
            elif stream in bench.analysis.schemas:
                self._tell(f"{stream}: digests", 0, 1)
                report.add(DIGESTS, stream, len(epochs), "epochs", work.digests(stream, epochs), why_not)
            else:
                what = f"stream {stream!r} is not recomputed: {why_not}"
                where = code.pipeline.place.file
                hint = "give the file that it was made with: --file"
                report.add(RECOMPUTED, stream, 0, "epochs", [Finding(NOTE, RECOMPUTED, stream, 0, what, where, hint)])

    def _fragment(self, fragment: Fragment, ledger: Ledger, work: Recompute, report: Report) -> None:
        name = fragment.name
        reach = work.reach(fragment, self._wish.of(ledger, name))
        findings = work.fragment(fragment, reach, self._ticks(f"{name}: epochs", reach.compared))
        remark = ""
        if reach.beyond:
            first, last = reach.beyond[0], reach.beyond[-1]
            remark = f"{len(reach.beyond)} out of reach"
            what = (
                f"{len(reach.beyond)} epochs of {name!r}, {first} to {last}, are out of reach and were not recomputed"
            )
            hint = "what was trimmed cannot be computed again; a longer retain_s keeps it"
            findings.append(Finding(NOTE, RECOMPUTED, name, first, what, reach.why, hint))
        report.add(RECOMPUTED, name, reach.compared, "epochs", findings, remark)

    def _ticks(self, what: str, total: int) -> Callable[[], None]:
        done = 0
        self._tell(what, 0, total)

        def tick() -> None:
            nonlocal done
            done += 1
            self._tell(what, done, total)

        return tick


def check_wish(ledger: Ledger, wish: Wish) -> None:
    """Raise DeclarationError for a stream that is not on record."""
    unknown = sorted(wish.streams - ledger.streams.keys())
    if unknown:
        known = ", ".join(sorted(ledger.streams)) or "none yet"
        raise DeclarationError(f"there is no stream {unknown[0]!r}", hint=f"streams here: {known}")


def _why_not(stream: str, fragments: dict[str, Fragment], bench: Bench) -> str:
    """Why a stream is not recomputed, empty if it is."""
    if stream not in fragments:
        known = stream in bench.analysis.schemas
        return "a source is not read again" if known else "the pipeline file has no such stream, or fuses it"
    if not fragments[stream].deterministic:
        return "logged, not deterministic: not recomputed"
    return ""


def _other_schema(stream: str, recorded: str, bench: Bench) -> Finding | None:
    schema = bench.analysis.schemas[stream]
    if json.loads(recorded) == schema.jsonValue():
        return None
    what = f"the pipeline file gives stream {stream!r} another schema than the one it was published with"
    where = f"now {schema.simpleString()}; on record {recorded}"
    return Finding(WRONG, RECOMPUTED, stream, 0, what, where, "give the file that it was made with: --file")


@contextmanager
def scratch_of(home: Home) -> Iterator[Path]:
    """A folder of this process in the home, on whose file system segments can be linked. What audits left that were
    killed is removed."""
    folder = home.work / ".scratch"
    for left in folder.glob("audit.*"):
        pid = left.suffix[1:]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)
    scratch = folder / f"audit.{os.getpid()}"
    try:
        scratch.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(
            f"there is no room to compute in the home: {error.strerror}",
            detail=str(scratch),
            hint="segments are linked there; make it writable, or leave the computing out: --no-recompute",
        ) from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
