from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BrokenInvariant, DeclarationError
from rekindle.keeper.records import Span
from rekindle.sources import Rate
from tests.sources.collect import Collected

START_S = 1_750_000_000.0
START_US = int(START_S * 1e6)


class Clock:
    def __init__(self, now_s: float = START_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def table(source: Rate, begin: int, end: int) -> pa.Table:
    after = {"start_us": START_US, "seq": begin} if begin else None
    batch = Collected()
    source.open([]).read(Span(after, {"start_us": START_US, "seq": end}), batch)
    return pa.concat_tables(batch.tables)


def splitmix(value: int) -> int:
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def test_rows_are_the_function_of_seed_and_seq_that_they_always_were() -> None:
    """Written once more in plain Python: a change of the generator would change every replay."""
    for row in table(Rate(1000, keys=7, seed=42), 5, 60).to_pylist():
        bits = []
        for column in (1, 2):
            start = splitmix((splitmix(42) + column) % 2**64)
            bits.append(splitmix((start + (row["seq"] - 1) * 0x9E3779B97F4A7C15) % 2**64) >> 32)
        assert row["key"] == bits[0] * 7 >> 32
        assert row["value"] == bits[1] * 1000 >> 32
        assert row["ts"].timestamp() == START_S + row["seq"] / 1000


@given(
    cuts=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    seed=st.integers(-(2**70), 2**70),
    keys=st.integers(1, 2**62),
    rate=st.one_of(st.integers(1, 10**7), st.floats(0.01, 1e6)),
    late_s=st.sampled_from([0.0, 0.5, 90.0]),
)
def test_the_rows_do_not_depend_on_where_claims_cut_them(
    cuts: list[int], seed: int, keys: int, rate: float, late_s: float
) -> None:
    source = Rate(rate, keys=keys, seed=seed, late_s=late_s)
    total = sum(cuts)
    parts, begin = [], 0
    for rows in cuts:
        parts.append(table(source, begin, begin + rows))
        begin += rows
    whole = table(source, 0, total)
    assert pa.concat_tables(parts).combine_chunks() == whole.combine_chunks()
    assert whole["seq"].to_pylist() == list(range(total))
    assert all(0 <= key < keys for key in whole["key"].to_pylist())
    assert all(0 <= value < 1000 for value in whole["value"].to_pylist())
    for seq, ts in enumerate(whole["ts"].cast(pa.int64()).to_pylist()):
        due = START_US + seq * 1e6 / rate
        assert due - late_s * 1e6 - 2 <= ts <= due + 2


def test_keys_are_spread_evenly_and_lateness_uses_its_range() -> None:
    rows = table(Rate(1_000_000, keys=10, seed=3, late_s=10.0), 0, 100_000).to_pydict()
    counts = [rows["key"].count(k) for k in range(10)]
    assert all(abs(c - 10_000) < 5 * math.sqrt(9_000) for c in counts)
    late = [(START_S + i / 1e6) - ts.timestamp() for i, ts in enumerate(rows["ts"])]
    assert 0 <= min(late) < 0.1
    assert 9.9 < max(late) <= 10.001
    assert abs(sum(r * k for r, k in zip(rows["key"], rows["value"], strict=True)) / 1e5 - 4.5 * 499.5) < 50


def test_newest_follows_the_clock_and_its_bounds() -> None:
    clock = Clock()
    reader = Rate(100, limit=450, clock=clock).open([])
    assert reader.newest(None, 1000) is None  # the start is now: no row is due
    clock.now_s += 1
    first = reader.newest(None, 1000)
    assert first == {"start_us": START_US, "seq": 100}
    assert reader.newest(first, 1000) is None
    clock.now_s += 2.005
    assert reader.newest(first, 50) == {"start_us": START_US, "seq": 150}
    assert reader.newest(first, 1000) == {"start_us": START_US, "seq": 300}
    clock.now_s += 1000
    last = reader.newest(first, 1000)
    assert last == {"start_us": START_US, "seq": 450}
    assert reader.newest(last, 1000) is None
    clock.now_s = START_S - 5  # a clock set back proposes nothing
    assert reader.newest(first, 1000) is None


def test_the_start_on_record_wins_over_a_later_clock_and_declaration() -> None:
    claimed = json.loads(json.dumps({"start_us": START_US, "seq": 10}))
    reader = Rate(100, start=START_S + 77, clock=Clock(START_S + 1)).open([claimed])
    assert reader.newest(claimed, 1000) == {"start_us": START_US, "seq": 100}


def test_a_declared_start() -> None:
    for start in (START_S, datetime.fromtimestamp(START_S, UTC)):
        reader = Rate(10, start=start, clock=Clock(START_S + 3)).open([])
        assert reader.newest(None, 1000) == {"start_us": START_US, "seq": 30}


def test_two_starts_in_one_claim_are_damage() -> None:
    with pytest.raises(BrokenInvariant, match="different starts"):
        Rate(1).open([]).read(Span({"start_us": 1, "seq": 1}, {"start_us": 2, "seq": 2}), Collected())


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows_per_s": 0},
        {"rows_per_s": math.inf},
        {"keys": 0},
        {"keys": 1.5},
        {"seed": "x"},
        {"limit": -1},
        {"late_s": -1},
        {"start": datetime(2026, 1, 1)},
    ],
)
def test_declarations_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        Rate(**{"rows_per_s": 1, **wrong})


def test_arrow_types_are_sparks() -> None:
    assert table(Rate(1), 0, 1).schema == pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("seq", pa.int64()), ("key", pa.int64()), ("value", pa.int64())]
    )
    assert not Rate(1).has_rejects
