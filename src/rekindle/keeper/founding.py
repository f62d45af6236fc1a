"""Opening a keeper: its tables are made if there are none, and must be this version's and this home's."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

import psycopg
from sqlalchemy import Connection, func, insert, inspect, select
from sqlalchemy.schema import CreateSchema

from rekindle.errors import DeclarationError, HomeUnusable
from rekindle.keeper.address import Address
from rekindle.keeper.faults import DATABASE_ERRORS, refused
from rekindle.keeper.schema import COUNTERS, SCHEMA_VERSION, Tables
from rekindle.keeper.store import Store

_ASK_AGAIN_S = 0.3


def found(store: Store, tables: Tables, *, home_id: str, pipeline: str) -> None:
    """Make the tables unless somebody did, and check whose they are. Safe to call at the same moment."""
    stamp = {"version": str(SCHEMA_VERSION), "home": home_id, "pipeline": pipeline}
    schema = tables.metadata.schema

    def look(connection: Connection) -> dict[str, str] | None:
        if not inspect(connection).has_table("meta", schema=schema):
            return None
        return {row.name: row.value for row in connection.execute(select(tables.meta))}

    def make(tx: Connection) -> dict[str, str]:
        if schema is not None:
            key = int.from_bytes(hashlib.sha256(schema.encode()).digest()[:8], "big", signed=True)
            tx.execute(select(func.pg_advisory_xact_lock(key)))
        there = look(tx)
        if there is not None:
            return there
        if schema is not None:
            tx.execute(CreateSchema(schema, if_not_exists=True))
        tables.metadata.create_all(tx, checkfirst=True)
        tx.execute(insert(tables.meta), [{"name": name, "value": value} for name, value in stamp.items()])
        tx.execute(insert(tables.counters), [{"name": name, "value": 0} for name in COUNTERS])
        return stamp

    there = store.read(look)
    if there is None and store.read_only:
        raise HomeUnusable(
            f"the keeper has no records of pipeline {pipeline!r}",
            detail=store.address.shown,
            hint="run the pipeline once, or bring the keeper's database back from a copy",
        )
    _check(store.address, store.write(make) if there is None else there, stamp)


def check_admission(store: Store) -> None:
    """Find out at once, not when patience has run out, that PostgreSQL does not let us in."""
    if store.sqlite or not _turned_away(store.address):
        return
    time.sleep(_ASK_AGAIN_S)  # a server that is just going down turns people away as well
    if not _turned_away(store.address):
        return
    url = store.address.url
    name = url.database if url is not None else ""
    if any(not _turned_away(store.address, database=other) for other in ("postgres", "template1") if other != name):
        raise DeclarationError(
            f"PostgreSQL has no database {name!r} for this user",
            detail=store.address.shown,
            hint=f"make it: CREATE DATABASE {name}; or name another one in the keeper's address",
        )
    raise DeclarationError(
        "PostgreSQL does not accept the keeper's user and password",
        detail=store.address.shown,
        hint="check both in the keeper's address; or set PGPASSWORD and leave the password out of the address",
    )


def _turned_away(address: Address, *, database: str | None = None) -> bool:
    if address.url is None:
        return False
    url = address.url if database is None else address.url.set(database=database)
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    settings = {**address.libpq(), **query, "dbname": url.database}
    settings |= {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
    try:
        psycopg.connect(**{name: value for name, value in settings.items() if value is not None}).close()
    except DATABASE_ERRORS as error:
        return refused(error)
    return False


def _check(address: Address, there: Mapping[str, str], stamp: Mapping[str, str]) -> None:
    version = there.get("version", "")
    if not version.isdecimal() or there.keys() < stamp.keys():
        raise HomeUnusable("the keeper's own description is damaged", detail=f"{address.shown}: {dict(there)}")
    if int(version) > SCHEMA_VERSION:
        raise HomeUnusable(
            f"the keeper was made by a newer Rekindle (its version is {version}, this one knows {SCHEMA_VERSION})",
            detail=address.shown,
            hint="upgrade: pip install --upgrade rekindle",
        )
    if int(version) < SCHEMA_VERSION:
        raise HomeUnusable(
            f"the keeper was made by an older Rekindle (its version is {version}, this one knows {SCHEMA_VERSION})",
            detail=address.shown,
            hint="finish it with the Rekindle that made it, or start a new home",
        )
    if there["pipeline"] != stamp["pipeline"]:
        raise HomeUnusable(
            f"the keeper belongs to the pipeline {there['pipeline']!r}, not to {stamp['pipeline']!r}",
            detail=address.shown,
            hint="give every pipeline a name, and a home, of its own",
        )
    if there["home"] != stamp["home"]:
        raise HomeUnusable(
            f"the keeper's records of pipeline {stamp['pipeline']!r} belong to another home",
            detail=f"{address.shown} belongs to home {there['home']}, this is home {stamp['home']}",
            hint="use the home that these records belong to, another database, or another name for the pipeline",
        )
