"""Where a keeper is: reading a keeper's URL, and speaking of it without its secrets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from rekindle.errors import DeclarationError

SQLITE = "sqlite:///"
POSTGRESQL = "postgresql://"
IDENTIFIER_BYTES_MAX = 63
"""PostgreSQL cuts longer names off without a word."""

# The network may swallow packets without an error: libpq then gives up by itself within these times.
_LIBPQ = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "application_name": "rekindle",
}


@dataclass(frozen=True, slots=True)
class Address:
    """A keeper's place. ``shown`` is for people, logs and records: it has no password and no options."""

    kind: str  # sqlite | postgresql
    shown: str
    path: str = ""
    url: URL | None = None

    def libpq(self) -> dict[str, Any]:
        """Settings of the connection, where the URL itself has none."""
        given = self.url.query if self.url is not None else {}
        return {name: value for name, value in _LIBPQ.items() if name not in given}


def parse(url: str) -> Address:
    """Read a keeper's URL. Raises DeclarationError, in words that never repeat a password."""
    if url.startswith(SQLITE):
        path = url.removeprefix(SQLITE)
        return Address("sqlite", f"{SQLITE}{path}", path=path)
    scheme, separator, _ = url.partition("://")
    if not separator or scheme != "postgresql":
        _refuse(scheme if separator else "")
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or not parsed.host or "@" in parsed.host:
        # Whatever stood in the way may be a piece of the password: neither the URL nor the cause is shown.
        raise DeclarationError(
            "the keeper's address cannot be read",
            hint=f"write {POSTGRESQL}USER:PASSWORD@HOST:PORT/DATABASE, and in the password %40 for @, %2F for /",
        )
    user = f"{parsed.username}@" if parsed.username else ""
    port = f":{parsed.port}" if parsed.port else ""
    shown = f"{POSTGRESQL}{user}{parsed.host}{port}/{parsed.database or ''}"
    return Address("postgresql", shown, url=parsed.set(drivername="postgresql+psycopg"))


def schema_name(pipeline: str) -> str:
    """The PostgreSQL schema that holds the records of ``pipeline``."""
    name = f"rekindle_{pipeline}"
    if len(name) <= IDENTIFIER_BYTES_MAX:
        return name
    mark = hashlib.sha256(pipeline.encode()).hexdigest()[:12]
    return f"{name[: IDENTIFIER_BYTES_MAX - 13]}_{mark}"


def _refuse(scheme: str) -> None:
    what = f"{scheme!r} is not a kind of keeper" if scheme else "the keeper's address has no scheme"
    bare = scheme.partition("+")[0].lower()
    if bare.startswith("sqlite") or bare == "file":
        hint = "leave the keeper's address out: SQLite in the home is the default"
    elif get_close_matches(bare, ["postgresql", "postgres", "pgsql"], cutoff=0.7):
        hint = f"did you mean {POSTGRESQL}?"
    else:
        hint = f"a keeper is {POSTGRESQL}USER:PASSWORD@HOST:PORT/DATABASE, or SQLite in the home if none is given"
    raise DeclarationError(what, hint=hint)
