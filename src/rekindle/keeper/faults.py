"""What an error of the database means: wait and try again, or tell somebody.

Fault model. Survived, by waiting: the server restarts, refuses, or goes away in the middle of a statement
or of COMMIT; the network drops a connection; another process holds the lock; the disk is full; deadlocks.
Not survived: damage, missing rights, a wrong password. Everything unknown surfaces as it is.
"""

from __future__ import annotations

import sqlite3

import psycopg
from sqlalchemy.exc import DBAPIError

from rekindle.errors import BrokenInvariant, KeeperUnavailable, RekindleError

_SQLITE_WAIT = {
    sqlite3.SQLITE_BUSY: "its file is locked by another process",
    sqlite3.SQLITE_LOCKED: "its file is locked by another connection",
    sqlite3.SQLITE_PROTOCOL: "its file is locked by another process",
    sqlite3.SQLITE_FULL: "the disk is full",
}
_SQLITE_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SQLITE_STUCK = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM)

_SQLSTATE_WAIT = {
    "57P01": "PostgreSQL is shutting down",
    "57P02": "PostgreSQL crashed",
    "57P03": "PostgreSQL is starting up",
    "25P03": "the connection was idle in a transaction for too long",
    "25006": "PostgreSQL is read-only (a standby, perhaps)",
    "40001": "transactions got in each other's way",
    "40P01": "transactions got in each other's way",
    "55P03": "another transaction holds a lock",
    "53100": "the disk of PostgreSQL is full",
    "53200": "PostgreSQL is out of memory",
    "53300": "PostgreSQL has too many connections",
}


class Busy(Exception):
    """Another thread of this process has had the turn to write for too long."""


DATABASE_ERRORS = (DBAPIError, sqlite3.Error, psycopg.Error, Busy)


def transient(error: BaseException) -> str | None:
    """Why waiting helps against ``error``, or None if it is not known to help."""
    if isinstance(error, Busy):
        return "its file is being written by another thread"
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        return _SQLITE_WAIT.get(_primary(cause))
    if isinstance(cause, psycopg.Error):
        if cause.sqlstate is not None:
            if cause.sqlstate.startswith("08"):
                return "the connection to PostgreSQL broke"
            return _SQLSTATE_WAIT.get(cause.sqlstate)
        # A connection that cannot be made, or that broke, has no SQLSTATE: nobody was there to send one.
        if isinstance(cause, psycopg.OperationalError):
            return "PostgreSQL cannot be reached"
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return "the connection to PostgreSQL broke"
    return None


def busy(error: BaseException) -> bool:
    """Whether SQLite says that another connection holds the lock."""
    cause = _cause(error)
    return isinstance(cause, sqlite3.Error) and _primary(cause) == sqlite3.SQLITE_BUSY


def surfaced(error: BaseException, shown: str) -> RekindleError | None:
    """The error that people see for one that waiting does not help against; None if it is unknown."""
    cause = _cause(error)
    if isinstance(cause, sqlite3.Error):
        if _primary(cause) in _SQLITE_DAMAGE:
            return BrokenInvariant("the keeper's file is damaged", detail=f"{shown}: {cause}")
        if _primary(cause) in _SQLITE_STUCK:
            return KeeperUnavailable(
                "the keeper's file cannot be used", detail=f"{shown}: {cause}", hint="check its folder and its rights"
            )
    if isinstance(cause, psycopg.errors.InsufficientPrivilege):
        return KeeperUnavailable(
            "PostgreSQL refuses the keeper's work for lack of rights",
            detail=f"{shown}: {cause.diag.message_primary}",
            hint="the user needs CREATE on the database: GRANT CREATE ON DATABASE ... TO ...",
        )
    return None


def refused(error: BaseException) -> bool:
    """Whether PostgreSQL was there, asked for a password, and then did not let us in."""
    cause = _cause(error)
    if not isinstance(cause, psycopg.OperationalError) or cause.sqlstate is not None or cause.pgconn is None:
        return False
    return bool(cause.pgconn.used_password or cause.pgconn.needs_password)


def _cause(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _primary(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
