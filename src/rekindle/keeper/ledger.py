"""The ledger: everything that is on record at one moment, for those who check it.

It is read in one transaction, so that its records belong together while a run goes on. A record that cannot be
understood is in it as damaged, where a verb would raise. All of it is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection, select

from rekindle.errors import BrokenInvariant
from rekindle.keeper import rows as records
from rekindle.keeper.records import Claim, Epoch, EpochNumber, Incarnation, Member, SafePoint, StreamRecord
from rekindle.keeper.rows import reading
from rekindle.keeper.safety import as_safe_point
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record that cannot be understood: the table it is in, whose it is, its epoch (0 if it has none), and why."""

    table: str
    subject: str
    epoch: EpochNumber
    primary: str
    detail: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far a sink is: its stream, the newest epoch that it took, and who recorded that."""

    sink: str
    stream: str
    epoch: EpochNumber
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Ledger:
    """Claims by fragment, epochs by stream, safe points by fragment, each in order of epoch."""

    members: tuple[Member, ...] = ()
    owners: Mapping[str, Incarnation] = field(default_factory=dict)
    streams: Mapping[str, StreamRecord] = field(default_factory=dict)
    claims: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    epochs: Mapping[str, tuple[Epoch, ...]] = field(default_factory=dict)
    safe_points: Mapping[str, tuple[SafePoint, ...]] = field(default_factory=dict)
    deliveries: tuple[Delivered, ...] = ()
    damaged: tuple[Damaged, ...] = ()

    def head(self, stream: str) -> EpochNumber:
        """The newest published epoch, 0 if none; also where its record is damaged."""
        return max(self._numbers(stream), default=EpochNumber(0))

    def oldest(self, stream: str) -> EpochNumber:
        """The oldest epoch that is kept, 0 if none; also where its record is damaged."""
        return min(self._numbers(stream), default=EpochNumber(0))

    def _numbers(self, stream: str) -> list[EpochNumber]:
        ends = [epoch.epoch for epoch in self.epochs.get(stream, ())[:: max(1, len(self.epochs.get(stream, ())) - 1)]]
        return ends + [d.epoch for d in self.damaged if (d.table, d.subject) == ("epochs", stream)]


Raw = Mapping[str, list[Mapping[str, Any]]]


def read_rows(connection: Connection, tables: Tables) -> Raw:
    """The rows as they are; they are understood after the transaction, which stays short."""
    asked = (
        tables.incarnations,
        tables.owners,
        tables.streams,
        tables.claims,
        tables.epochs,
        tables.safe_points,
        tables.deliveries,
    )
    return {t.name: rows(connection.execute(select(t).order_by(*t.primary_key.columns))) for t in asked}


def ledger_of(raw: Raw) -> Ledger:
    damaged: list[Damaged] = []

    def each(table: str, subject: str, understand: Callable[[Mapping[str, Any]], T]) -> list[T]:
        found = []
        for row in raw[table]:
            try:
                found.append(understand(row))
            except BrokenInvariant as error:
                epoch = row.get("epoch") if table != "deliveries" else 0
                number = EpochNumber(epoch if type(epoch) is int else 0)
                damaged.append(Damaged(table, str(row[subject]), number, error.primary, error.detail))
        return found

    return Ledger(
        members=tuple(each("incarnations", "node", records.member)),
        owners=dict(each("owners", "subject", _owner)),
        streams={record.stream: record for record in each("streams", "stream", records.stream)},
        claims=_by(each("claims", "fragment", records.claim), lambda claim: claim.fragment),
        epochs=_by(each("epochs", "stream", records.epoch), lambda epoch: epoch.stream),
        safe_points=_by(each("safe_points", "fragment", as_safe_point), lambda point: point.fragment),
        deliveries=tuple(each("deliveries", "sink", _delivered)),
        damaged=tuple(damaged),
    )


def _by(found: list[T], key: Callable[[T], str]) -> dict[str, tuple[T, ...]]:
    groups: dict[str, list[T]] = {}
    for item in found:
        groups.setdefault(key(item), []).append(item)
    return {name: tuple(items) for name, items in groups.items()}


def _owner(row: Mapping[str, Any]) -> tuple[str, Incarnation]:
    check = reading(f"the owner of {row['subject']!r}")
    subject = check.text("subject", row["subject"])
    return subject, Incarnation(check.whole("incarnation", row["incarnation"], 1))


def _delivered(row: Mapping[str, Any]) -> Delivered:
    check = reading(f"the delivery to sink {row['sink']!r}")
    return Delivered(
        sink=check.text("sink", row["sink"]),
        stream=check.text("stream", row["stream"]),
        epoch=EpochNumber(check.whole("epoch", row["epoch"])),
        incarnation=Incarnation(check.whole("incarnation", row["incarnation"], 1)),
    )
