"""A PostgreSQL for the tests of a session, and another one for those that stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rekindle.verify.postgres import PostgresMissing, PostgresServer

__all__ = ["PostgresMissing", "PostgresServer", "postgres", "postgres_own"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for the whole session. Stop and start it only through ``postgres_own``."""
    try:
        server = PostgresServer(fsync=False)  # no test cuts the power
    except PostgresMissing as missing:
        pytest.fail(f"{missing}: use ./run test, which installs them", pytrace=False)
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_own() -> Iterator[PostgresServer]:
    """A second PostgreSQL, for tests that stop it. Each test leaves it running."""
    try:
        server = PostgresServer(fsync=False)  # no test cuts the power
    except PostgresMissing as missing:
        pytest.fail(f"{missing}: use ./run test, which installs them", pytrace=False)
    with server:
        yield server
