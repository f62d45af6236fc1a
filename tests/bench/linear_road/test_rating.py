"""The search of the rating."""

from __future__ import annotations

import pytest

from bench.linear_road.__main__ import EXPRESSWAYS_MAX, rating


@pytest.mark.parametrize("limit", [0, 1, 5, 7, 14, 32, 63, 64])
@pytest.mark.parametrize("first", [1, 4, 20])
def test_it_finds_the_largest_that_passes_and_asks_seldom(limit: int, first: int) -> None:
    asked: list[int] = []

    def passes(number: int) -> bool:
        asked.append(number)
        return number <= limit

    assert rating(passes, first) == limit
    assert len(asked) == len(set(asked)) <= 13
    assert all(1 <= number <= EXPRESSWAYS_MAX for number in asked)
