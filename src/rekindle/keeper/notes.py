"""What is noted beside the main line: deliveries to sinks, failed attempts, failures, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, select, update

from rekindle.errors import BrokenInvariant
from rekindle.keeper.line import Line
from rekindle.keeper.lives import Lives
from rekindle.keeper.records import EpochNumber, Event, Failure, Incarnation
from rekindle.keeper.rows import event, failure, legible, reading, writing
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect, one_row, rows, sole_row


class Notes:
    """Statements on deliveries, attempts, failures and events."""

    def __init__(self, tables: Tables, dialect: Dialect, lives: Lives, line: Line) -> None:
        deliveries, attempts, failures, events = tables.deliveries, tables.attempts, tables.failures, tables.events
        self._lives = lives
        self._line = line
        self._dialect = dialect
        self._delivered = select(deliveries).where(deliveries.c.sink == bindparam("of"))
        self._deliveries = select(deliveries).order_by(deliveries.c.sink)
        self._delivered_held = self._delivered.with_for_update()
        self._insert_delivery = dialect.insert_if_absent(deliveries, "sink")
        self._deliver = (
            update(deliveries)
            .where(deliveries.c.sink == bindparam("of"))
            .values(epoch=bindparam("at"), incarnation=bindparam("by"), delivered_at_s=bindparam("now"))
        )
        self._meta = select(tables.meta)
        self._set_meta = dialect.upsert(tables.meta, "name")
        self._insert_attempt = dialect.insert_if_absent(attempts, "key")
        self._attempts = (
            select(func.count())
            .select_from(attempts)
            .where(attempts.c.subject == bindparam("of"), attempts.c.epoch == bindparam("at"))
        )
        self._fail = dialect.upsert(failures, "subject")
        self._failures = select(failures).order_by(failures.c.subject)
        self._forget = (delete(attempts), delete(failures))
        self._insert_event = dialect.insert_if_absent(events, "key")
        self._events = (
            select(events).where(events.c.id > bindparam("past")).order_by(events.c.id).limit(bindparam("most"))
        )
        self._events_of_kinds = self._events.where(events.c.kind.in_(bindparam("kinds", expanding=True)))

    # -- sinks -------------------------------------------------------------------------------------

    def delivered(self, connection: Connection, sink: str) -> EpochNumber:
        row = one_row(connection.execute(self._delivered, {"of": sink}))
        return EpochNumber(0) if row is None else _delivered(row)

    def deliveries(self, connection: Connection) -> dict[str, tuple[str, EpochNumber]]:
        found = rows(connection.execute(self._deliveries))
        return {row["sink"]: (row["stream"], _delivered(row)) for row in found}

    def record_delivery(
        self, tx: Connection, sink: str, stream: str, epoch: EpochNumber, by: Incarnation, now_s: float
    ) -> None:
        check = writing(f"the delivery of epoch {epoch!r} to sink {sink!r}")
        row = {
            "sink": check.text("sink", sink),
            "stream": check.text("stream", stream),
            "epoch": 0,
            "incarnation": check.whole("incarnation", by, 1),
            "delivered_at_s": check.seconds("delivered_at_s", now_s),
        }
        check.whole("epoch", epoch, 1)
        self._lives.hold(tx, by)
        held = one_row(tx.execute(self._delivered_held, {"of": sink}))
        if held is None:
            tx.execute(self._insert_delivery, row)
            held = sole_row(tx.execute(self._delivered_held, {"of": sink}))
        if held["stream"] != stream:
            raise BrokenInvariant(
                f"{check.record} is of stream {stream!r}", detail=f"the sink takes {held['stream']!r}"
            )
        newest = _delivered(held)
        if epoch <= newest:
            return
        if newest == 0 and 1 < epoch <= self._line.oldest(tx, stream):
            newest = EpochNumber(epoch - 1)  # a new sink starts with what is kept
        if epoch != newest + 1:
            raise BrokenInvariant(f"{check.record} is not the next one", detail=f"the newest it took is {newest}")
        head = self._line.head(tx, stream)
        if epoch > head:
            raise BrokenInvariant(
                f"{check.record} runs ahead of what is published", detail=f"the newest of {stream!r} is {head}"
            )
        tx.execute(self._deliver, {"of": sink, "at": epoch, "by": by, "now": now_s})
        self._dialect.announce(tx)

    # -- failures ----------------------------------------------------------------------------------

    def record_attempt(
        self, tx: Connection, key: str, subject: str, epoch: EpochNumber, by: Incarnation, now_s: float
    ) -> int:
        check = writing(f"an attempt at epoch {epoch!r} of {subject!r}")
        row = {
            "key": key,
            "subject": check.text("subject", subject),
            "epoch": check.whole("epoch", epoch),
            "incarnation": check.whole("incarnation", by, 1),
            "at_s": check.seconds("at_s", now_s),
        }
        self._lives.hold(tx, by)  # what fails in a ghost, whose files are gone, says nothing of the epoch
        self._dialect.next(tx, "attempts")  # one at a time, so that no two are told the same number
        tx.execute(self._insert_attempt, row)
        return int(tx.execute(self._attempts, {"of": subject, "at": epoch}).scalar_one())

    def record_failure(
        self,
        tx: Connection,
        subject: str,
        epoch: EpochNumber,
        reason: str,
        traceback: str,
        by: Incarnation,
        now_s: float,
    ) -> None:
        check = writing(f"the failure of {subject!r}")
        row = {
            "subject": check.text("subject", subject),
            "epoch": check.whole("epoch", epoch),
            "reason": legible(reason),
            "traceback": legible(traceback),
            "incarnation": check.whole("incarnation", by, 1),
            "at_s": check.seconds("at_s", now_s),
        }
        tx.execute(self._fail, row)

    def clear_failures(self, tx: Connection) -> None:
        for statement in self._forget:
            tx.execute(statement)

    def failures(self, connection: Connection) -> list[Failure]:
        return [failure(row) for row in rows(connection.execute(self._failures))]

    # -- the pipeline file -------------------------------------------------------------------------

    def record_file(self, tx: Connection, file: str, code: str) -> None:
        check = writing("the pipeline file")
        for name, value in (("file", file), ("code", code)):
            tx.execute(self._set_meta, {"name": name, "value": check.text(name, value)})

    def file(self, connection: Connection) -> tuple[str, str] | None:
        there = {row["name"]: row["value"] for row in rows(connection.execute(self._meta))}
        return (there["file"], there["code"]) if there.keys() >= {"file", "code"} else None

    # -- events ------------------------------------------------------------------------------------

    def event(self, tx: Connection, key: str, kind: str, subject: str, detail: Mapping[str, Any], now_s: float) -> None:
        check = writing(f"an event {kind!r} of {subject!r}")
        row = {
            # Numbers are given out one transaction at a time: who reads on after an id misses none.
            "id": self._dialect.next(tx, "events"),
            "key": key,
            "at_s": check.seconds("at_s", now_s),
            "kind": legible(kind),
            "subject": legible(subject),
            "detail": check.dump("detail", dict(detail)),
        }
        tx.execute(self._insert_event, row)

    def events(self, connection: Connection, after: int, limit: int | None, kinds: Sequence[str]) -> list[Event]:
        asked: dict[str, Any] = {"past": after, "most": 2**62 if limit is None else limit}
        statement = self._events
        if kinds:
            statement, asked["kinds"] = self._events_of_kinds, list(kinds)
        return [event(row) for row in rows(connection.execute(statement, asked))]


def _delivered(row: Mapping[str, Any]) -> EpochNumber:
    return EpochNumber(reading(f"the delivery to sink {row['sink']!r}").whole("epoch", row["epoch"]))
