"""Safe points: which of a fragment's checkpoints enough stores hold, and which must be kept.

Safe points of a fragment form a chain: each is built on the one that was the newest before. That is what lets
files be shared between them and old ones be deleted, though several replicas may ship: whoever lost sight of the
newest loses, and looks again. The newest is never forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from rekindle.errors import BrokenInvariant
from rekindle.keeper.lives import Lives
from rekindle.keeper.records import EpochNumber, Incarnation, SafePoint, Secured
from rekindle.keeper.rows import reading, writing
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect, one_row, rows


class Safety:
    """Statements on safe points and pins."""

    def __init__(self, tables: Tables, dialect: Dialect, lives: Lives) -> None:
        points, pins, claims = tables.safe_points, tables.pins, tables.claims
        self._lives = lives
        self._dialect = dialect
        of_fragment = points.c.fragment == bindparam("of")
        at_epoch = points.c.epoch == bindparam("at")
        self._claimed = select(claims.c.epoch).where(
            claims.c.fragment == bindparam("of"), claims.c.epoch == bindparam("at")
        )
        self._insert = insert(points)
        self._at = select(points).where(of_fragment, at_epoch)
        self._newest = select(points).where(of_fragment).order_by(points.c.epoch.desc()).limit(1)
        self._all = select(points).where(of_fragment).order_by(points.c.epoch)
        self._forget = delete(points).where(of_fragment, at_epoch)
        self._pin = dialect.insert_if_absent(pins, "fragment", "epoch", "why")
        self._unpin = delete(pins).where(
            pins.c.fragment == bindparam("of"), pins.c.epoch == bindparam("at"), pins.c.why == bindparam("reason")
        )
        self._pins = select(pins).where(pins.c.fragment == bindparam("of")).order_by(pins.c.epoch, pins.c.why)

    def record(
        self,
        tx: Connection,
        fragment: str,
        epoch: EpochNumber,
        batch: int,
        built_on: EpochNumber,
        manifest: str,
        checksum: str,
        stores: Sequence[str],
        bytes: int,
        by: Incarnation,
        now_s: float,
    ) -> Secured:
        check = writing(f"the safe point at epoch {epoch!r} of fragment {fragment!r}")
        if not stores:
            check.fail("stores", list(stores), "at least one store")
        row = {
            "fragment": check.text("fragment", fragment),
            "epoch": check.whole("epoch", epoch, 1),
            "batch": check.whole("batch", batch),
            "built_on": check.whole("built_on", built_on),
            "manifest": check.text("manifest", manifest),
            "checksum": check.text("checksum", checksum),
            "stores": check.dump("stores", [check.text("a store", store) for store in stores]),
            "bytes": check.whole("bytes", bytes),
            "incarnation": check.whole("incarnation", by, 1),
            "recorded_at_s": check.seconds("recorded_at_s", now_s),
        }
        self._lives.hold(tx, by)
        self._turn(tx)
        newest = self.newest(tx, fragment)
        there = one_row(tx.execute(self._at, {"of": fragment, "at": epoch}))
        if there is not None and newest is not None:
            same = (there["manifest"], there["checksum"]) == (manifest, checksum)
            return Secured(same, newest)
        if built_on != (newest.epoch if newest is not None else 0):
            if newest is None:
                raise BrokenInvariant(f"{check.record} is built on {built_on}, which never was a safe point")
            return Secured(False, newest)
        if newest is not None and epoch <= newest.epoch:
            return Secured(False, newest)
        if tx.execute(self._claimed, {"of": fragment, "at": epoch}).scalar_one_or_none() is None:
            raise BrokenInvariant(f"{check.record} is of an epoch that nobody claimed")
        tx.execute(self._insert, row)
        self._dialect.announce(tx)
        return Secured(True, as_safe_point(row))

    def newest(self, connection: Connection, fragment: str) -> SafePoint | None:
        row = one_row(connection.execute(self._newest, {"of": fragment}))
        return None if row is None else as_safe_point(row)

    def all(self, connection: Connection, fragment: str) -> list[SafePoint]:
        return [as_safe_point(row) for row in rows(connection.execute(self._all, {"of": fragment}))]

    def retire(self, tx: Connection, fragment: str, keep: int, by: Incarnation) -> list[SafePoint]:
        if keep < 1:
            raise BrokenInvariant(f"the newest safe point of {fragment!r} is always kept", detail=f"keep is {keep}")
        self._lives.hold(tx, by)
        self._turn(tx)
        there = self.all(tx, fragment)
        wanted = {point.epoch for point in there[-keep:]} | self.pins(tx, fragment).keys()
        for point in there:
            if point.epoch not in wanted:
                tx.execute(self._forget, {"of": fragment, "at": point.epoch})
        return [point for point in there if point.epoch in wanted]

    def pin(self, tx: Connection, fragment: str, epoch: EpochNumber, why: str, now_s: float) -> None:
        check = writing(f"the pin of epoch {epoch!r} of fragment {fragment!r}")
        row = {
            "fragment": check.text("fragment", fragment),
            "epoch": check.whole("epoch", epoch, 1),
            "why": check.text("why", why),
            "pinned_at_s": check.seconds("pinned_at_s", now_s),
        }
        self._turn(tx)
        if one_row(tx.execute(self._at, {"of": fragment, "at": epoch})) is None:
            kept = [point.epoch for point in self.all(tx, fragment)]
            raise BrokenInvariant(
                f"epoch {epoch} of {fragment!r} is not a safe point that is kept", detail=f"kept are {kept}"
            )
        tx.execute(self._pin, row)

    def unpin(self, tx: Connection, fragment: str, epoch: EpochNumber, why: str) -> None:
        tx.execute(self._unpin, {"of": fragment, "at": epoch, "reason": why})

    def pins(self, connection: Connection, fragment: str) -> dict[EpochNumber, tuple[str, ...]]:
        found: dict[EpochNumber, tuple[str, ...]] = {}
        for row in rows(connection.execute(self._pins, {"of": fragment})):
            epoch = EpochNumber(reading(f"a pin of fragment {fragment!r}").whole("epoch", row["epoch"], 1))
            found[epoch] = (*found.get(epoch, ()), row["why"])
        return found

    def _turn(self, tx: Connection) -> None:
        # Looking for the newest and writing the next must be one step, also where readers do not block writers.
        self._dialect.next(tx, "changes")


def as_safe_point(row: Mapping[str, Any]) -> SafePoint:
    check = reading(f"the safe point at epoch {row['epoch']!r} of fragment {row['fragment']!r}")
    stores = check.load("stores", row["stores"])
    if not isinstance(stores, list) or not stores:
        check.fail("stores", stores, "a list of stores")
    return SafePoint(
        fragment=check.text("fragment", row["fragment"]),
        epoch=EpochNumber(check.whole("epoch", row["epoch"], 1)),
        batch=check.whole("batch", row["batch"]),
        built_on=EpochNumber(check.whole("built_on", row["built_on"])),
        manifest=check.text("manifest", row["manifest"]),
        checksum=check.text("checksum", row["checksum"]),
        stores=tuple(check.text("a store", store) for store in stores),
        bytes=check.whole("bytes", row["bytes"]),
        incarnation=Incarnation(check.whole("incarnation", row["incarnation"], 1)),
        recorded_at_s=check.seconds("recorded_at_s", row["recorded_at_s"]),
    )
