"""What a run with faults gave, compared with the undisturbed run of the same claims, stream by stream, sink by sink.

Both made the same claims (see ``node/prescribed``), so an epoch of one is an epoch of the other, and is compared as
such: by its digest, and row by row where that differs. What ``rk.Gap()`` drops moves all that comes after it, and what
comes after it starts from an empty state: of such a stream, and of those that read it, only what came again or was
changed can be seen, and what was dropped, which is on record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from rekindle.errors import SegmentDamaged
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, Epoch, Span
from rekindle.pipeline import Pipeline
from rekindle.recovery import Gap as GapPolicy
from rekindle.streams.segments import read_batches
from rekindle.verify.classify import Arrival, Finding, canonical, classify
from rekindle.verify.recorder import arrivals
from rekindle.verify.trial import Witness


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind: where to read it, and what came when."""

    home: Home
    epochs: Mapping[str, list[Epoch]]
    sinks: Mapping[str, list[Arrival]]
    changed: Mapping[str, list[tuple[Epoch, Epoch | None]]]
    seen_s: Mapping[tuple[str, int], float]
    schemas: Mapping[str, str]

    def brought(self, source: str) -> dict[str, object]:
        """What a source brought, for ``redirect.Brought``."""
        paths = [[str(self.home.inside(s.path)) for s in epoch.output.segments] for epoch in self.epochs[source]]
        return {"schema": self.schemas[source], "epochs": paths}


def outcome(home: Home, keeper: Keeper, witness: Witness, pipeline: Pipeline, sinks: Path) -> Outcome:
    """Gather what a run left behind."""
    changed: dict[str, list[tuple[Epoch, Epoch | None]]] = {}
    for seen, now in witness.changed(keeper):
        changed.setdefault(seen.epoch.stream, []).append((seen.epoch, now))
    return Outcome(
        home=home,
        epochs={stream: keeper.epochs(stream, after=0) for stream in keeper.streams()},
        sinks={name: arrivals(sinks / name) for name in pipeline.sinks},
        changed=changed,
        seen_s={key: seen.at_s for key, seen in witness.seen.items()},
        schemas={stream: record.schema for stream, record in keeper.streams().items()},
    )


def behind_gaps(pipeline: Pipeline) -> set[str]:
    """The streams that recover by a gap, and those that read them."""
    found = {name for name, stream in pipeline.streams.items() if isinstance(stream.recovery, GapPolicy)}
    while True:
        more = {name for name, stream in pipeline.streams.items() if found.intersection(stream.inputs)} - found
        if not more:
            return found
        found |= more


def judge_stream(stream: str, right: Outcome, run: Outcome, *, comparable: bool, repeatable: bool) -> Finding:
    """One published stream."""
    mine = {int(epoch.epoch): epoch for epoch in run.epochs.get(stream, [])}
    dropped = {number: epoch.output.dropped for number, epoch in mine.items() if epoch.output.dropped is not None}
    theirs = {int(epoch.epoch): epoch for epoch in right.epochs.get(stream, [])} if comparable else mine
    again = {int(seen.epoch): (seen, now) for seen, now in run.changed.get(stream, [])}
    expected: dict[int, list[str]] = {}
    came: list[Arrival] = []
    agreed = 0
    for number in sorted(theirs.keys() | again.keys()):
        due, got = theirs.get(number), mine.get(number)
        if due is None:
            continue  # the undisturbed run did not get so far
        if number not in again and got is not None and _same(due, got, repeatable):
            agreed += due.output.rows
            continue
        expected[number] = stream_rows(right.home if comparable else run.home, due)
        if number in again:
            seen, now = again[number]
            came.append(Arrival(number, tuple(stream_rows(run.home, seen)), 0.0))
            got = now
        if got is not None:
            came.append(Arrival(number, tuple(stream_rows(run.home, got)), run.seen_s.get((stream, number), 0.0)))
    return classify(expected, came, repeatable=repeatable and comparable, dropped=dropped, agreed=agreed)


def judge_sink(sink: str, stream: str, right: Outcome, run: Outcome, *, comparable: bool, repeatable: bool) -> Finding:
    """What one sink's receiver got."""
    got = run.sinks.get(sink, [])
    dropped = {int(e.epoch): e.output.dropped for e in run.epochs.get(stream, []) if e.output.dropped is not None}
    if comparable:
        expected = settled(right.sinks.get(sink, []))
    else:
        expected = {int(e.epoch): [""] * e.output.rows for e in run.epochs.get(stream, [])}
    return classify(expected, got, repeatable=repeatable and comparable, dropped=dropped)


def settled(came: Iterable[Arrival]) -> dict[int, list[str]]:
    """What a receiver holds of each epoch in the end."""
    held: dict[int, list[str]] = {}
    for arrival in came:
        rows = held.setdefault(arrival.epoch, [])
        for row in arrival.gone:
            if row in rows:
                rows.remove(row)
        rows.extend(arrival.rows)
    return held


def stream_rows(home: Home, epoch: Epoch) -> list[str]:
    """The rows of an epoch, each segment verified. What cannot be read is a row of its own that says so."""
    try:
        batches = list(read_batches(home, [epoch]))
    except SegmentDamaged as error:
        return [f"unreadable: {error.primary}"]
    options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(canonical(orjson.dumps(row, default=str, option=options).decode()) for row in rows)


def scripted(pipeline: Pipeline, keeper: Keeper, *, but: Collection[str]) -> dict[str, list[dict[str, Span]]]:
    """The claims of every fragment, but those of the streams in ``but``, in order."""
    fragments = {r.fragment for r in keeper.streams().values() if r.stream.removesuffix(REJECTED_SUFFIX) not in but}
    return {name: [dict(claim.spans) for claim in keeper.claims(name)] for name in sorted(fragments)}


def _same(due: Epoch, got: Epoch, repeatable: bool) -> bool:
    if repeatable:
        return due.output.digest == got.output.digest
    return due.output.rows == got.output.rows
