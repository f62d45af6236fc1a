"""Waiting until something was claimed, published or delivered, here or in another process.

A token counts changes. Whoever saw token n and waits for more misses none that came after n.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import psycopg
from psycopg import sql
from sqlalchemy.exc import DBAPIError

log = logging.getLogger("rekindle.keeper")

POLL_S = 0.005
AWAY_S = 0.05
LISTEN_S = 0.5


class Watch(Protocol):
    def wait(self, seen: int, timeout_s: float) -> int: ...

    def nudge(self) -> None:
        """This process changed something."""

    def close(self) -> None: ...


class SqliteWatch:
    """Polls PRAGMA data_version, which moves when another connection commits; then reads the count of changes.

    The connection is the watch's own, so commits of this process's pool move it as well.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._looking = threading.Lock()
        self._changed = threading.Condition()
        self._version = -1
        self._token = 0
        self._closed = False

    def wait(self, seen: int, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while True:
            token = self._look()
            left_s = deadline - time.monotonic()
            if token > seen or left_s <= 0 or self._closed:
                return max(token, seen)
            with self._changed:
                self._changed.wait(min(POLL_S, left_s))

    def nudge(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        self.nudge()
        with self._looking:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _look(self) -> int:
        with self._looking:
            if self._closed:
                return self._token
            try:
                if self._connection is None:
                    self._connection = self._connect()
                (version,) = self._connection.execute("PRAGMA data_version").fetchone()
                if version != self._version:
                    (self._token,) = self._connection.execute(
                        "SELECT value FROM counters WHERE name = 'changes'"
                    ).fetchone()
                    self._version = version
            except sqlite3.OperationalError as error:
                # The verbs wait for the file and speak up; a watch that sees nothing only returns later.
                log.debug("cannot look for changes: %s", error)
            return self._token


class PostgresWatch:
    """LISTENs on a connection and in a thread of its own. While that is down, wait returns early: a poll."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], channel: str) -> None:
        self._connect = connect
        self._channel = channel
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._token = 0
        self._listening = False

    def wait(self, seen: int, timeout_s: float) -> int:
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._listen, name="rekindle-keeper-listen", daemon=True)
                self._thread.start()
                self._changed.wait_for(lambda: self._listening, min(timeout_s, 1.0))
            if not self._listening:
                timeout_s = min(timeout_s, AWAY_S)
            self._changed.wait_for(lambda: self._token > seen or self._closing.is_set(), timeout_s)
            return max(self._token, seen)

    def nudge(self) -> None:
        """Nothing to do: the notification comes back to this process as well."""

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._changed.notify_all()

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    self._move(listening=True)
                    while not self._closing.is_set():
                        for _ in connection.notifies(timeout=LISTEN_S, stop_after=1):
                            self._move(listening=True)
            except (psycopg.Error, DBAPIError) as error:
                log.debug("not listening for changes: %s", error)
                self._move(listening=False)
                self._closing.wait(AWAY_S)

    def _move(self, *, listening: bool) -> None:
        # Coming back counts as a change as well: something may have been missed meanwhile.
        with self._changed:
            self._listening = listening
            self._token += 1
            self._changed.notify_all()
