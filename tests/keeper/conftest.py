"""Every conformance test of the keeper runs on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.keeper import Keeper
from rekindle.keeper.records import Incarnation
from tests.keeper.place import Place


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").url
    place = Place(tmp_path, url)
    yield place
    place.close()


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, None)
    yield place
    place.close()


@pytest.fixture
def keeper(place: Place) -> Keeper:
    return place.open()


@pytest.fixture
def me(keeper: Keeper) -> Incarnation:
    return keeper.enlist("n1", code="c1")
