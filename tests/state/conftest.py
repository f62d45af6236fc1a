"""A keeper with claims for forty epochs of the fragment ``sums``, and three stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from rekindle.state.stores import Store
from tests.keeper.place import Place


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    folder = tmp_path / "keeper"
    folder.mkdir()
    place = Place(folder, None)
    yield place.open()
    place.close()


@pytest.fixture
def me(keeper: Keeper) -> Incarnation:
    return claimant(keeper, "n1", 40)


def claimant(keeper: Keeper, node: str, epochs: int) -> Incarnation:
    """An incarnation that claimed the first epochs of ``sums``."""
    by = keeper.enlist(node, code="c1")
    position = None
    for epoch in range(1, epochs + 1):
        keeper.claim("sums", EpochNumber(epoch), {"outside": Span(position, epoch)}, by=by)
        position = epoch
    return by


@pytest.fixture
def stores(tmp_path: Path) -> list[Store]:
    made = [Store(str(tmp_path / f"store{number}"), "p-1") for number in range(3)]
    for store in made:
        store.prepare()
    return made
