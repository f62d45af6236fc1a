"""The keeper's real verbs on a database in memory, fast enough to be called a million times.

The statements are the keeper's own; only what SQLAlchemy does around them at each call (pool, events, result
processing) is left out: a statement is compiled once and handed to sqlite3. Triggers write down every row that comes,
changes or goes, whoever did it, so what the records did is seen apart from what a verb says that it did.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy.dialects import sqlite

from rekindle.home import Home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.schema import COUNTERS

T = TypeVar("T")
_DIALECT = sqlite.dialect()
_WATCHED = {
    "claims": "",
    "epochs": "",
    "deliveries": "",
    "safe_points": "",
    "owners": "",
    "streams": "",
    "events": "",
    "incarnations": "WHEN OLD.state IS NOT NEW.state OR OLD.node IS NOT NEW.node",
}


class Change(tuple[str, str, Mapping[str, Any] | None, Mapping[str, Any] | None]):
    """(table, what, the row before, the row after), what being insert, update or delete."""


class Result:
    def __init__(self, cursor: sqlite3.Cursor) -> None:
        returns = cursor.description is not None
        self.rowcount = cursor.rowcount
        self._names = [column[0] for column in cursor.description] if returns else []
        self._rows = cursor.fetchall() if returns else []

    def mappings(self) -> Result:
        return self

    def __iter__(self) -> Any:
        names = self._names
        return (dict(zip(names, row, strict=True)) for row in self._rows)

    def one_or_none(self) -> dict[str, Any] | None:
        return dict(zip(self._names, self._rows[0], strict=True)) if self._rows else None

    def one(self) -> dict[str, Any]:
        (row,) = self._rows
        return dict(zip(self._names, row, strict=True))

    def scalar_one_or_none(self) -> Any:
        return self._rows[0][0] if self._rows else None

    def scalar_one(self) -> Any:
        ((value, *_),) = self._rows
        return value


class Thin:
    """As much of a Connection as the verbs use."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._compiled: dict[int, tuple[Any, str, list[tuple[str, Any]]]] = {}

    def execute(self, statement: Any, values: Mapping[str, Any] | None = None) -> Result:
        known = self._compiled.get(id(statement)) or self._compile(statement)
        _, text, names = known
        given = values or {}
        return Result(self._connection.execute(text, [given.get(n, default) for n, default in names]))

    def _compile(self, statement: Any) -> tuple[Any, str, list[tuple[str, Any]]]:
        compiled = statement.compile(dialect=_DIALECT)
        text, defaults = str(compiled), compiled.construct_params(_check=False)
        names: list[tuple[str, Any]] = []
        for name in compiled.positiontup or ():
            listed = f"__[POSTCOMPILE_{name}]"
            if listed in text:
                text = text.replace(listed, ", ".join("?" * len(defaults[name])))
                names += [(f"{name}[{number}]", value) for number, value in enumerate(defaults[name])]
            else:
                names.append((name, defaults[name]))
        known = (statement, text, names)  # the statement is held, so that its id stays its own
        self._compiled[id(statement)] = known
        return known


class Network(Protocol):
    """Between whoever calls and the keeper."""

    def request(self) -> None:
        """Before the keeper sees it. May take long, or raise KeeperUnavailable."""

    def answer(self) -> bool:
        """After the keeper has done it: whether the caller hears of it."""


class Books:
    """In place of the keeper's Store. Everything in one connection; transactions never overlap, as on SQLite."""

    sqlite = True

    def __init__(self, schema: list[str]) -> None:
        self.connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False, cached_statements=512
        )
        self.network: Network | None = None
        self.watch: Callable[[list[Change]], None] = lambda changes: None
        self.changed: Callable[[int], None] = lambda token: None
        self._thin = Thin(self.connection)
        self._tables = []
        for statement in schema:
            self.connection.execute(statement)
        for (name,) in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            self._tables.append(name)
        self.connection.execute("CREATE TABLE journal (tab TEXT, what TEXT, before TEXT, after TEXT)")
        self.connection.execute(
            "CREATE TRIGGER changes AFTER UPDATE ON counters WHEN NEW.name = 'changes' "
            "BEGIN INSERT INTO journal VALUES ('counters', 'update', NULL, NEW.value); END"
        )
        for table, when in _WATCHED.items():
            columns = [row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")]
            rows = {o: "json_object(" + ", ".join(f"'{c}', {o}.{c}" for c in columns) + ")" for o in ("OLD", "NEW")}
            for what, before, after in (("insert", 0, 1), ("update", 1, 1), ("delete", 1, 0)):
                values = [
                    f"'{table}'",
                    f"'{what}'",
                    rows["OLD"] if before else "NULL",
                    rows["NEW"] if after else "NULL",
                ]
                self.connection.execute(
                    f"CREATE TRIGGER {table}_{what} AFTER {what} ON {table} {when if what == 'update' else ''} "
                    f"BEGIN INSERT INTO journal VALUES ({', '.join(values)}); END"
                )

    def start_anew(self) -> None:
        for table in self._tables:
            self.connection.execute(f"DELETE FROM {table}")
        self.connection.execute("DELETE FROM journal")
        self.connection.executemany("INSERT INTO counters VALUES (?, 0)", [(name,) for name in COUNTERS])

    def read(self, ask: Callable[[Any], T]) -> T:
        return self._through(lambda: ask(self._thin))

    def write(self, act: Callable[[Any], T]) -> T:
        return self._through(lambda: self._transaction(act))

    def peek(self, ask: Callable[[Any], T]) -> T:
        """Read past the network, for those who judge."""
        return ask(self._thin)

    def close(self) -> None:
        """It is used again."""

    def _through(self, act: Callable[[], T]) -> T:
        """As the real Store does: an attempt whose answer is lost is made again."""
        network = self.network
        if network is None:
            return act()
        while True:
            network.request()
            result = act()
            if network.answer():
                return result

    def _transaction(self, act: Callable[[Any], T]) -> T:
        connection = self.connection
        connection.execute("BEGIN")
        try:
            result = act(self._thin)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        journal = connection.execute("SELECT * FROM journal").fetchall()
        if journal:
            connection.execute("DELETE FROM journal")
            rows = [line for line in journal if line[0] != "counters"]
            if rows:
                self.watch([Change((tab, what, b and json.loads(b), a and json.loads(a))) for tab, what, b, a in rows])
            if len(rows) < len(journal):
                self.changed(max(int(line[3]) for line in journal if line[0] == "counters"))
        return result


def open_books(clock: Callable[[], float], watch: Any) -> tuple[Keeper, Books]:
    """One keeper for every schedule of this process: making its statements takes longer than a schedule."""
    with tempfile.TemporaryDirectory() as folder:
        keeper = open_keeper(None, home=Home(Path(folder), "simulation", "home", "sqlite"), clock=clock)
        with sqlite3.connect(f"{folder}/keeper.db") as file:
            schema = [row[0] for row in file.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")]
        file.close()
        keeper.close()
    books = Books(schema)
    setattr(keeper, "_store", books)  # noqa: B010
    setattr(keeper, "_watch", watch)  # noqa: B010
    return keeper, books
