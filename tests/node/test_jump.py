"""The jump of gap recovery, on real records, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.node.jump import jump
from rekindle.node.rehearsal import _works
from tests.node.household import Household, N


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Household]:
    house = Household(tmp_path / "home", careless=True)
    for _ in range(3):
        house.step("lines")
        house.step("plain", rows=2)
    yield house
    house.close()


def context(house: Household) -> Any:
    return SimpleNamespace(keeper=house.keeper, incarnation=house.me, home=house.home)


def dropped(house: Household, name: str) -> list[int | None]:
    return [epoch.output.dropped for epoch in house.keeper.epochs(name, after=0)]


def jump_of(house: Household, name: str) -> int:
    (fragment,) = (f for f in house.fragments if f.name == name)
    return jump(context(house), fragment)


def test_what_is_claimed_and_what_came_since_is_dropped(house: Household) -> None:
    house.step("tail", take=1)
    house.claim("tail", take=1)
    assert jump_of(house, "tail") == 3
    assert dropped(house, "tail") == [None, 2, 2]


def test_that_the_state_begins_anew_is_on_record_also_when_nothing_is_dropped(house: Household) -> None:
    house.step("tail")
    assert jump_of(house, "tail") == 2
    assert dropped(house, "tail") == [None, 0]
    assert jump_of(house, "tail") == 2  # it is empty already
    house.step("lines")
    house.step("plain", rows=2)
    assert jump_of(house, "tail") == 3
    assert dropped(house, "tail") == [None, 0, 2]


def test_what_has_no_state_loses_none(house: Household) -> None:
    assert jump_of(house, "plain") == 3
    assert dropped(house, "plain") == [None, None, None]


def test_a_rehearsal_takes_what_is_kept(house: Household) -> None:
    for _ in range(3):
        house.step("tail", take=1)
    for sink, stream in (("out", "sums"), ("ends", "tail")):
        house.deliver(sink, stream)
    house.keeper.trim_epochs("plain", N(3), by=house.me, gone=("sums", "window"))
    (fragment,) = (f for f in house.fragments if f.name == "tail")
    works = _works(context(house), fragment)
    assert [work.epoch for work in works] == [3]
