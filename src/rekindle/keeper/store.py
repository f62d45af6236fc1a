"""The database under the keeper: connections, transactions, and patience while it is away."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from rekindle.errors import KeeperUnavailable
from rekindle.keeper.address import Address
from rekindle.keeper.faults import DATABASE_ERRORS, Busy, busy, surfaced, transient

T = TypeVar("T")
log = logging.getLogger("rekindle.keeper")

BUSY_S_MAX = 5.0
LOCK_POLL_S = 0.001
PAUSE_S_MIN, PAUSE_S_MAX = 0.01, 1.0

# Head lookups must walk the index whatever the statistics say of a young table; a process that is
# stopped inside a transaction must not hold its locks; what COMMIT has confirmed must be on disk.
_POSTGRES_SESSION = """
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET lock_timeout = '5s';
SET idle_in_transaction_session_timeout = '5s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""


class Store:
    """Runs functions in transactions, again and again until one was committed, at most ``patience_s`` long.

    So a function may run several times, and even after a commit whose answer was lost: it must be idempotent.
    """

    def __init__(self, address: Address, *, patience_s: float, read_only: bool = False) -> None:
        self.address = address
        self.read_only = read_only
        self.patience_s = patience_s
        self.closed = threading.Event()
        self.sqlite = address.kind == "sqlite"
        self._turn = threading.Lock()
        self._busy_s = min(BUSY_S_MAX, patience_s)
        self._engine = self._sqlite_engine() if self.sqlite else self._postgres_engine()
        # SQLite's connections are in autocommit unless a transaction is begun by hand.
        self._plain = self._engine if self.sqlite else self._engine.execution_options(isolation_level="AUTOCOMMIT")

    def close(self) -> None:
        self.closed.set()
        self._engine.dispose()

    def read(self, ask: Callable[[Connection], T]) -> T:
        """Run statements that only read, each by itself."""

        def attempt() -> T:
            with self._plain.connect() as connection:
                return ask(connection)

        return self.patiently(attempt)

    def snapshot(self, ask: Callable[[Connection], T]) -> T:
        """Run statements that only read, all as of one moment."""

        def attempt() -> T:
            with self._engine.connect() as connection:
                if self.sqlite:
                    connection.exec_driver_sql("BEGIN")
                else:
                    # Not postgresql_readonly=True: its reset would let a read-only connection write afterwards.
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                try:
                    return ask(connection)
                finally:
                    connection.rollback()

        return self.patiently(attempt)

    def write(self, act: Callable[[Connection], T]) -> T:
        """Run ``act`` in one transaction. On SQLite it excludes all other writers; on PostgreSQL it is READ
        COMMITTED, so ``act`` must lock what it decides by."""
        attempt = self._write_sqlite if self.sqlite else self._write_postgres
        return self.patiently(lambda: attempt(act))

    def _write_sqlite(self, act: Callable[[Connection], T]) -> T:
        with self._my_turn(), self._engine.connect() as connection:
            self._begin_immediate(connection)
            result = act(connection)
            connection.commit()
            return result

    def _write_postgres(self, act: Callable[[Connection], T]) -> T:
        with self._engine.begin() as connection:
            return act(connection)

    def _begin_immediate(self, connection: Connection) -> None:
        # SQLite waits for a lock in sleeps that grow to 0.1 s; locks here last a millisecond or so.
        deadline = time.monotonic() + self._busy_s
        connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                    return
                except DBAPIError as error:
                    if not busy(error) or time.monotonic() > deadline:
                        raise
                time.sleep(LOCK_POLL_S)
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(self._busy_s * 1000)}")

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        # Threads of one process queue up here, where they are woken, instead of polling for the file's lock.
        if not self._turn.acquire(timeout=self._busy_s):
            raise Busy
        try:
            yield
        finally:
            self._turn.release()

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it gets through. Raises KeeperUnavailable when patience has run out."""
        deadline: float | None = None
        pause_s = PAUSE_S_MIN
        while True:
            began = time.monotonic()
            try:
                result = attempt()
            except DATABASE_ERRORS as error:
                reason = transient(error)
                if reason is None:
                    seen = surfaced(error, self.address.shown)
                    if seen is None:
                        raise
                    raise seen from error
                if deadline is None:
                    deadline = began + self.patience_s
                    log.warning("the keeper at %s does not answer (%s): waiting", self.address.shown, reason)
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self.closed.is_set():
                    raise self._unavailable(reason) from error
            else:
                if deadline is not None:
                    waited_s = self.patience_s - (deadline - time.monotonic())
                    log.warning("the keeper at %s answers again after %.1f s", self.address.shown, waited_s)
                return result
            self.closed.wait(min(pause_s, left_s))
            pause_s = min(pause_s * 2, PAUSE_S_MAX)

    def _unavailable(self, reason: str) -> KeeperUnavailable:
        if self.sqlite:
            hint = "free some disk space, or look for a stopped process that has the file open, and run again"
        else:
            hint = "check that PostgreSQL runs and can be reached from here, and run again: nothing is lost"
        return KeeperUnavailable(
            f"the keeper did not answer for {self.patience_s:g} s: {reason}", detail=self.address.shown, hint=hint
        )

    # -- connections -------------------------------------------------------------------------------

    def _sqlite_engine(self) -> Engine:
        return create_engine("sqlite://", creator=self.sqlite_connection, poolclass=QueuePool, **_pool())

    def sqlite_connection(self) -> sqlite3.Connection:
        """A connection to the keeper's file, set up for durability. Transactions are begun by hand."""
        connection = sqlite3.connect(
            self.address.path, timeout=self._busy_s, check_same_thread=False, isolation_level=None
        )
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise KeeperUnavailable(
                    f"SQLite cannot keep a write-ahead log here (it offers {mode!r})",
                    detail=self.address.shown,
                    hint="put the home on a local disk",
                )
            connection.execute("PRAGMA synchronous = FULL")
            if self.read_only:
                connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _postgres_engine(self) -> Engine:
        url = self.address.url
        if url is None:
            raise TypeError("an address of PostgreSQL has a URL")
        engine = create_engine(url, connect_args=self.address.libpq(), **_pool())
        event.listen(engine, "connect", _set_up_postgres)
        if self.read_only:
            event.listen(engine, "connect", _forbid_writing)
        return engine

    def postgres_connection(self) -> psycopg.Connection[Any]:
        """A connection of its own, outside the pool, in autocommit."""
        pooled = self._engine.raw_connection()
        connection = pooled.driver_connection
        pooled.detach()
        if not isinstance(connection, psycopg.Connection):
            raise TypeError(f"{type(connection)} is not a connection of psycopg")
        connection.autocommit = True
        return connection


def _pool() -> dict[str, Any]:
    # No upper bound: a thread that wants a connection never waits for another thread's.
    return {"pool_size": 4, "max_overflow": -1, "pool_use_lifo": True, "hide_parameters": True}


def _set_up_postgres(connection: Any, _: Any) -> None:
    connection.autocommit = True
    connection.execute(_POSTGRES_SESSION)
    connection.autocommit = False


def _forbid_writing(connection: Any, _: Any) -> None:
    connection.autocommit = True
    connection.execute("SET default_transaction_read_only = on")
    connection.autocommit = False
