"""The verdict on what came out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bench._measure import judge
from bench._rows import Rows, Tally

ROWS = [Rows(0, 4, 4, loaded=4), Rows(4, 1000, 4)]
EXPECTED = Tally.of_input(ROWS, 4, windowed=False)


def output(more: int = 0) -> list[pa.Table]:
    counts, sums = EXPECTED.counts.copy(), EXPECTED.sums.copy()
    counts[2] += more
    return [
        pa.table({"key": range(4), "n": [1] * 4, "sum": [0] * 4}),
        pa.table({"key": range(4), "n": counts, "sum": sums}),
    ]


def nobody() -> tuple[int, int]:
    raise AssertionError("not asked for")


def test_what_the_input_comes_to_is_exact() -> None:
    assert judge(output(), nobody, EXPECTED, at_most=False) == "exact"


@pytest.mark.parametrize("more", [-1, 1])
def test_one_row_too_few_or_too_many_is_wrong(more: int) -> None:
    assert judge(output(more), nobody, EXPECTED, at_most=False) == f"WRONG: 1 keys differ ({1004 + more:,}/1,004)"


def test_where_rows_may_be_dropped_they_must_be_on_record() -> None:
    assert judge(output(-4), lambda: (1000, 4), EXPECTED, at_most=True) == "at most (4 rows dropped on record)"
    assert judge(output(-4), lambda: (1000, 3), EXPECTED, at_most=True).startswith("WRONG: of 1,004 rows 1,000 were")
    assert judge(output(1), lambda: (1004, 0), EXPECTED, at_most=True).startswith("WRONG: 1 keys are above")
