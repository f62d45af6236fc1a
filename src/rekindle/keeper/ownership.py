"""Ownership: which incarnation does what only one may do at a time: read a source, feed a sink, compute alone.

An owner stays the owner until it is no longer live; then the first who asks takes its place. So fencing an
incarnation is all it takes to hand over, and no second decision has to be made.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from rekindle.keeper.lives import Lives
from rekindle.keeper.records import Incarnation, Owner
from rekindle.keeper.rows import LIVE, reading, writing
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect, one_row, rows, sole_row


class Ownership:
    """Statements on the table of owners."""

    def __init__(self, tables: Tables, dialect: Dialect, lives: Lives) -> None:
        owners, incarnations = tables.owners, tables.incarnations
        self._lives = lives
        self._dialect = dialect
        self._insert = dialect.insert_if_absent(owners, "subject")
        self._held = select(owners).where(owners.c.subject == bindparam("of")).with_for_update()
        self._state = select(incarnations.c.state).where(incarnations.c.incarnation == bindparam("by"))
        self._take = (
            update(owners)
            .where(owners.c.subject == bindparam("of"))
            .values(incarnation=bindparam("by"), since_s=bindparam("now"))
        )
        self._all = select(owners, incarnations.c.state).join(
            incarnations, owners.c.incarnation == incarnations.c.incarnation
        )

    def own(self, tx: Connection, subject: str, by: Incarnation, now_s: float) -> Owner:
        check = writing(f"the owner of {subject!r}")
        row = {
            "subject": check.text("subject", subject),
            "incarnation": check.whole("incarnation", by, 1),
            "since_s": check.seconds("since_s", now_s),
        }
        self._lives.hold(tx, by)
        if tx.execute(self._insert, row).rowcount == 1:
            return Owner(subject, by, live=True, before=None)
        held = sole_row(tx.execute(self._held, {"of": subject}))
        before = Incarnation(reading(f"the owner of {subject!r}").whole("incarnation", held["incarnation"], 1))
        if before == by:
            return Owner(subject, by, live=True, before=None)
        state = one_row(tx.execute(self._state, {"by": before}))
        if state is not None and state["state"] in LIVE:
            return Owner(subject, before, live=True, before=None)
        tx.execute(self._take, {"of": subject, "by": by, "now": now_s})
        self._dialect.announce(tx)
        return Owner(subject, by, live=True, before=before)

    def all(self, connection: Connection) -> dict[str, Owner]:
        found: dict[str, Owner] = {}
        for row in rows(connection.execute(self._all)):
            subject: Any = row["subject"]
            check = reading(f"the owner of {subject!r}")
            by = Incarnation(check.whole("incarnation", row["incarnation"], 1))
            found[check.text("subject", subject)] = Owner(subject, by, live=row["state"] in LIVE, before=None)
        return found
