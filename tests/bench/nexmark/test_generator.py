"""The generator: what its rows are like, and that each is a function of its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench._workload import Scale, fields
from bench.nexmark import generator
from bench.nexmark.generator import FIRST_ID, FIRST_MS, INPUTS, PARAMETERS, at_ms, first_at, numbers, rows
from bench.nexmark.workload import FILE_ROWS, WORKLOADS

COUNT = 100_000


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return rows(0, COUNT, PARAMETERS)


def test_of_50_rows_one_is_a_person_three_are_auctions_and_46_bids(tables: dict[str, pa.Table]) -> None:
    assert {name: table.num_rows for name, table in tables.items()} == {
        "person": 2_000,
        "auction": 6_000,
        "bid": 92_000,
    }
    every = np.concatenate([table["seq"].to_numpy() for table in tables.values()])
    assert np.array_equal(np.sort(every), np.arange(COUNT))
    for name in ("person", "auction"):
        ids = tables[name]["id"].to_numpy()
        assert np.array_equal(ids, FIRST_ID + np.arange(len(ids)))


@pytest.mark.parametrize("cut", [1, 49, 50, 51, 777])
def test_two_slices_are_one(cut: int) -> None:
    whole = rows(130, 2_000, PARAMETERS)
    left, right = rows(130, cut, PARAMETERS), rows(130 + cut, 2_000 - cut, PARAMETERS)
    for name in INPUTS:
        assert pa.concat_tables([left[name], right[name]]).equals(whole[name])


def test_the_seed_decides(tables: dict[str, pa.Table]) -> None:
    other = rows(0, COUNT, {**PARAMETERS, "seed": 2})
    for name in INPUTS:
        assert rows(0, COUNT, PARAMETERS, only=[name])[name].equals(tables[name])
        assert not other[name].equals(tables[name])
        assert other[name]["ts"].equals(tables[name]["ts"])


def test_the_tables_have_the_declared_schemas(tables: dict[str, pa.Table]) -> None:
    types = {"long": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
    for name, table in tables.items():
        declared = {column: types[kind] for column, kind in fields(INPUTS[name]).items()}
        assert {f.name: f.type for f in table.schema} == declared


def test_event_time_grows_with_the_number_at_the_rate(tables: dict[str, pa.Table]) -> None:
    bid = tables["bid"]
    assert np.array_equal(bid["at_ms"].to_numpy(), FIRST_MS + bid["seq"].to_numpy() * 1000 // 10_000)
    assert pc.all(pc.equal(pc.cast(bid["ts"], pa.int64()), pc.multiply(bid["at_ms"], 1000))).as_py()


def test_half_of_the_bids_are_for_hot_auctions_and_three_in_four_of_hot_bidders(tables: dict[str, pa.Table]) -> None:
    bid, auction = tables["bid"], tables["auction"]
    for column, hot, share in (
        (bid["auction"], 0, 0.505),
        (bid["bidder"], 1, 0.7525),
        (auction["seller"], 0, 0.7525),
    ):
        found = np.mean((column.to_numpy() - FIRST_ID) % generator.HOT_EVERY == hot)
        assert abs(found - share) < 0.02, (found, share)


def test_all_that_a_row_refers_to_came_before_it_and_not_long_before(tables: dict[str, pa.Table]) -> None:
    person, auction, bid = (tables[name] for name in INPUTS)
    begins = auction["seq"].to_numpy()[bid["auction"].to_numpy() - FIRST_ID]
    assert (begins < bid["seq"].to_numpy()).all()
    before_ms = bid["at_ms"].to_numpy() - at_ms(begins, PARAMETERS)
    assert 0.5 * generator.oldest_ms(PARAMETERS) < before_ms.max() < generator.oldest_ms(PARAMETERS)
    registered = person["seq"].to_numpy()
    for table, column in ((bid, "bidder"), (auction, "seller")):
        assert (registered[table[column].to_numpy() - FIRST_ID] < table["seq"].to_numpy()).all()
    open_ms = auction["expires_ms"].to_numpy() - auction["at_ms"].to_numpy()
    assert open_ms.min() >= 1
    assert 900 < open_ms.max() <= 1_000


def test_every_factor_of_ten_has_as_many_prices(tables: dict[str, pa.Table]) -> None:
    powers = np.floor(np.log10(tables["bid"]["price"].to_numpy())).astype(int)
    shares = np.bincount(powers, minlength=9)[2:8] / len(powers)
    assert np.abs(shares - 1 / 6).max() < 0.01
    assert set(powers) <= set(range(2, 9))


def test_values_are_spread_over_all_there_are(tables: dict[str, pa.Table]) -> None:
    assert set(tables["auction"]["category"].to_pylist()) == {10, 11, 12, 13, 14}
    assert len(set(tables["person"]["state"].to_pylist())) == 6
    channels = set(tables["bid"]["channel"].to_pylist())
    assert set(generator.HOT_CHANNELS) < channels and len(channels) > 9_000
    assert len(set(tables["bid"]["url"].to_pylist())) == len(channels)


@pytest.mark.parametrize("kind", INPUTS)
def test_the_first_row_at_a_time(kind: str) -> None:
    parameters = {**PARAMETERS, "rate": 700}
    seq = numbers(kind, 0, 5_000)
    for time_ms in (FIRST_MS, FIRST_MS + 1, FIRST_MS + 999, FIRST_MS + 4_321):
        wanted = seq[at_ms(seq, parameters) >= time_ms][0]
        assert first_at(kind, np.array([time_ms]), parameters)[0] == wanted


def test_files_of_every_query_hold_as_many_rows_of_what_it_reads(tmp_path: Path) -> None:
    q3 = next(w for w in WORKLOADS if w.name == "nexmark_q3")
    steps = q3.make(tmp_path, Scale(2), q3.parameters)
    assert [step.rows for step in steps] == [FILE_ROWS, FILE_ROWS]
    assert [step.through for step in steps] == [2_499_999, 4_999_999]
    sellers = pq.read_table(steps[1].files["auction"], columns=["seller"])["seller"].to_numpy()
    known = pq.read_table(steps[1].files["person"], columns=["id"])["id"].to_numpy()
    assert sellers.max() <= known.max()
