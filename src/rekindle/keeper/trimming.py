"""Trimming: records that nobody can need any more are forgotten, the oldest first.

What is refused here is what the records themselves show to be needed, whoever asks. How much more a recovery policy
needs is decided in ``recovery.horizon``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select

from rekindle.errors import BrokenInvariant, StillNeeded
from rekindle.keeper.line import Line
from rekindle.keeper.lives import Lives
from rekindle.keeper.notes import Notes
from rekindle.keeper.records import EpochNumber, Incarnation, needed_input
from rekindle.keeper.rows import writing
from rekindle.keeper.safety import Safety
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect


class Trimming:
    """Statements that delete. Everything they go by only ever grows, but for pins: those who pin and those who trim
    take turns."""

    def __init__(
        self, tables: Tables, dialect: Dialect, lives: Lives, line: Line, notes: Notes, safety: Safety
    ) -> None:
        claims, epochs, events, attempts = tables.claims, tables.epochs, tables.events, tables.attempts
        self._dialect = dialect
        self._lives = lives
        self._line = line
        self._notes = notes
        self._safety = safety
        self._forget_epochs = delete(epochs).where(
            epochs.c.stream == bindparam("of"), epochs.c.epoch < bindparam("before")
        )
        self._forget_claims = delete(claims).where(
            claims.c.fragment == bindparam("of"), claims.c.epoch < bindparam("before")
        )
        self._newest_event = select(func.max(events.c.id))
        self._forget_events = delete(events).where(events.c.id < bindparam("before"))
        self._kept_attempt = (
            select(attempts.c.at_s).order_by(attempts.c.at_s.desc()).offset(bindparam("skipped")).limit(1)
        )
        self._forget_attempts = delete(attempts).where(attempts.c.at_s < bindparam("before"))

    def epochs(self, tx: Connection, stream: str, before: EpochNumber, by: Incarnation, gone: Collection[str]) -> None:
        self._begin(tx, f"the trimming of stream {stream!r}", before, by)
        before = min(before, self._line.head(tx, stream))
        oldest = self._line.oldest(tx, stream)
        if before <= oldest:
            return
        for who, needed in self._needs(tx, stream, gone):
            if needed < before:
                raise StillNeeded(
                    f"epochs of stream {stream!r} that are to be trimmed are still needed by {who}",
                    detail=f"needed from epoch {needed} on, to be trimmed are those from {oldest} to {before - 1}",
                )
        tx.execute(self._forget_epochs, {"of": stream, "before": before})

    def claims(self, tx: Connection, fragment: str, before: EpochNumber, by: Incarnation) -> None:
        self._begin(tx, f"the trimming of the claims of fragment {fragment!r}", before, by)
        first, last = self._line.first_claim(tx, fragment), self._line.last_claim(tx, fragment)
        if first is None or last is None:
            return
        before = min(before, EpochNumber(last.epoch - 1))
        if before <= first.epoch:
            return
        needs = [("epochs that are not published yet", 1)]
        own = [record.stream for record in self._line.streams(tx).values() if record.fragment == fragment]
        if own:
            needs = [(f"epochs of stream {stream!r}", self._line.oldest(tx, stream)) for stream in own]
        needs += [("pinned safe points", epoch) for epoch in self._safety.pins(tx, fragment)]
        for what, needed in needs:
            if needed < before:
                raise StillNeeded(
                    f"claims of fragment {fragment!r} that are to be trimmed are still needed for its {what}",
                    detail=f"needed from epoch {needed} on, to be trimmed are those from {first.epoch} to {before - 1}",
                )
        tx.execute(self._forget_claims, {"of": fragment, "before": before})

    def events(self, tx: Connection, keep: int, by: Incarnation) -> None:
        if keep < 1:
            raise BrokenInvariant("the newest event is always kept", detail=f"keep is {keep}")
        self._lives.hold(tx, by)
        newest: Any = tx.execute(self._newest_event).scalar_one_or_none()
        if newest is not None:
            tx.execute(self._forget_events, {"before": newest - keep + 1})
        kept: Any = tx.execute(self._kept_attempt, {"skipped": keep - 1}).scalar_one_or_none()
        if kept is not None:
            tx.execute(self._forget_attempts, {"before": kept})

    def _begin(self, tx: Connection, what: str, before: EpochNumber, by: Incarnation) -> None:
        writing(what).whole("before", before, 1)
        self._lives.hold(tx, by)
        self._dialect.next(tx, "changes")

    def _needs(self, tx: Connection, stream: str, gone: Collection[str]) -> Iterator[tuple[str, int]]:
        """Everybody on record who takes epochs of ``stream``, and the oldest one that he needs."""
        for sink, (taken, epoch) in self._notes.deliveries(tx).items():
            if taken == stream and sink not in gone:
                yield f"sink {sink!r}", epoch + 1
        records = self._line.streams(tx)
        owner = records[stream].fragment if stream in records else stream
        inputs: dict[str, set[str]] = {}
        for record in records.values():
            inputs.setdefault(record.fragment, set()).update(record.inputs)
        for fragment in sorted(inputs.keys() - {owner}):
            last = self._line.last_claim(tx, fragment)
            if stream not in inputs[fragment] and (last is None or stream not in last.spans):
                continue
            for epoch in list(self._safety.pins(tx, fragment))[:1]:
                yield f"a pinned safe point of fragment {fragment!r}", self._needed_after(tx, fragment, epoch, stream)
            if fragment not in gone:
                own = [record.stream for record in records.values() if record.fragment == fragment]
                published = min(self._line.head(tx, name) for name in own)
                yield f"fragment {fragment!r}", self._needed_after(tx, fragment, published, stream)

    def _needed_after(self, tx: Connection, fragment: str, epoch: int, stream: str) -> EpochNumber:
        """The oldest epoch of ``stream`` that the epochs of ``fragment`` after ``epoch`` take in."""
        claim = self._line.claim_of(tx, fragment, EpochNumber(epoch + 1))
        before = self._line.claim_of(tx, fragment, EpochNumber(epoch)) if epoch else None
        return needed_input(stream, claim, before)
