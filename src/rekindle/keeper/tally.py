"""Counters: rows that give out growing numbers, and with them the turn among transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Table, bindparam, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from rekindle.errors import BrokenInvariant
from rekindle.keeper.schema import Tables

Insert = postgresql.Insert | sqlite.Insert


class Dialect:
    """The few statements that SQLite and PostgreSQL want said differently. ``channel`` is PostgreSQL's."""

    def __init__(self, tables: Tables, *, channel: str | None) -> None:
        counters = tables.counters
        self._insert: Callable[[Table], Insert] = sqlite.insert if channel is None else postgresql.insert
        self._next = (
            update(counters)
            .where(counters.c.name == bindparam("counter"))
            .values(value=counters.c.value + 1)
            .returning(counters.c.value)
        )
        self._notify = None if channel is None else select(func.pg_notify(channel, ""))

    def insert_if_absent(self, table: Table, *key: str) -> Insert:
        """An insert that leaves the row of the same key alone; its rowcount says whether it wrote."""
        insert = self._insert(table).on_conflict_do_nothing(index_elements=list(key))
        return insert.execution_options(preserve_rowcount=True)

    def upsert(self, table: Table, key: str) -> Insert:
        """An insert that replaces the row of the same key."""
        insert = self._insert(table)
        changed = {column.name: insert.excluded[column.name] for column in table.c if column.name != key}
        return insert.on_conflict_do_update(index_elements=[key], set_=changed)

    def next(self, tx: Connection, counter: str) -> int:
        """The next number of a counter. Others who want one wait until this transaction ends."""
        value: Any = tx.execute(self._next, {"counter": counter}).scalar_one_or_none()
        if type(value) is not int:
            raise BrokenInvariant(f"the keeper's counter {counter!r} is damaged", detail=f"its value is {value!r}")
        return value

    def announce(self, tx: Connection) -> None:
        """Wake those who wait, once this transaction is committed."""
        if self._notify is None:
            self.next(tx, "changes")
        else:
            tx.execute(self._notify)


def one_row(result: Any) -> Mapping[str, Any] | None:
    """The one row of a result, as a mapping, or None."""
    found: Mapping[str, Any] | None = result.mappings().one_or_none()
    return found


def sole_row(result: Any) -> Mapping[str, Any]:
    """The row that must be there."""
    found: Mapping[str, Any] = result.mappings().one()
    return found


def rows(result: Any) -> list[Mapping[str, Any]]:
    """All rows of a result, as mappings."""
    found: list[Mapping[str, Any]] = list(result.mappings())
    return found
