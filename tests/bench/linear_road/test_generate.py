"""The traffic: what every row must be, and that what the benchmark is about happens often enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from bench.linear_road.generate import Traffic, history, table, write_history
from bench.linear_road.oracle import Oracle
from bench.linear_road.world import COLUMNS, INPUT_ARROW
from tests.bench.linear_road.traffic import Said, seconds

FULL = Traffic(expressways=2, seconds=420, from_minute=173, seed=3)


@pytest.fixture(scope="module")
def said() -> Said:
    return seconds(FULL)


@pytest.fixture(scope="module")
def oracle(said: Said) -> Oracle:
    oracle = Oracle()
    oracle.rows(said)
    return oracle


def test_rows_are_in_the_order_of_time_and_have_what_their_type_has(said: Said) -> None:
    rows = {name: np.array(column) for name, column in said.items()}
    assert tuple(rows) == COLUMNS
    assert (np.diff(rows["time"]) >= 0).all() and set(rows["time"]) == set(range(FULL.seconds))
    reports, balances, expenditures = (rows["type"] == kind for kind in (0, 2, 3))
    assert (reports | balances | expenditures).all()
    limits = {"spd": 100, "xway": 1, "lane": 4, "dir": 1, "seg": 99, "pos": 527_999}
    for name, most in limits.items():
        found = rows[name][reports]
        assert found.min() == 0 and found.max() <= most
    assert (rows["seg"][reports] == rows["pos"][reports] // 5280).all()
    assert (rows["day"][expenditures] >= 1).all() and (rows["day"][expenditures] <= 69).all()
    qids = rows["qid"][~reports]
    assert len(set(qids)) == len(qids) and (rows["qid"][reports] == -1).all()
    unused = {"s_init", "s_end", "dow", "tod"}
    assert all((rows[name] == -1).all() for name in unused)


def test_a_car_enters_in_lane_0_reports_every_30_s_and_is_gone_after_lane_4(said: Said) -> None:
    last: dict[int, tuple[int, int]] = {}
    entered = returned = 0
    for kind, time, vid, lane in zip(*(said[name] for name in ("type", "time", "vid", "lane")), strict=True):
        if kind:
            continue
        before, was = last.get(vid, (None, None))
        if before is None:
            entered += 1
            assert lane == 0 or time < 30  # those that were on the road already
        elif was == 4:
            returned += 1
            assert lane == 0 and time - before > 60
        else:
            assert time - before == 30
        last[vid] = (time, lane)
    assert entered > 1000 and returned > 100


def test_at_full_load_an_expressway_has_1700_reports_a_second() -> None:
    traffic = Traffic(expressways=1, seconds=60, from_minute=180)
    reports = sum(int((rows["type"] == 0).sum()) for rows in traffic.rows()) / 60
    assert reports == pytest.approx(1700, rel=0.1)


def test_the_load_grows() -> None:
    counts = [len(next(iter(Traffic(1, 1, minute).rows()))["vid"]) for minute in (0, 90, 180)]
    assert counts == sorted(counts) and counts[0] < 60 < 1000 < counts[-1]


def test_one_report_in_a_hundred_asks(said: Said) -> None:
    kinds = np.bincount(said["type"])
    assert kinds[2] / kinds[0] == pytest.approx(0.005, rel=0.1)
    assert kinds[3] / kinds[0] == pytest.approx(0.001, rel=0.2)


def test_tolls_and_accident_zones_are_frequent_at_full_load(oracle: Oracle) -> None:
    answers = oracle.answers(None)
    settled = answers[0][answers[0][:, 0] >= 120]
    assert 0.4 < (settled[:, 3] > 0).mean() < 0.95
    assert 0.02 < len(answers[1]) / len(answers[0]) < 0.2
    assert (answers[2][:, 3] > 0).mean() > 0.2


def test_accidents_happen_and_clear(oracle: Oracle) -> None:
    accidents = [accident for of in oracle.accidents.of.values() for accident in of]
    assert len(accidents) >= 4
    assert any(accident.cleared is not None for accident in accidents)
    assert any(accident.started > 3 for accident in accidents)


def test_accidents_last_ten_to_twenty_minutes() -> None:
    oracle = Oracle()
    oracle.rows(seconds(Traffic(expressways=1, seconds=2400, from_minute=5, seed=5)))
    accidents = [accident for of in oracle.accidents.of.values() for accident in of]
    lasted = [a.cleared - a.started for a in accidents if a.cleared is not None and a.started > 3]
    assert len(lasted) >= 3
    # It takes three more reports until the stop is seen.
    assert all(8 <= minutes <= 20 for minutes in lasted)


def test_the_same_traffic_is_the_same_rows() -> None:
    one, two, other = (Traffic(1, 5, 10, seed) for seed in (7, 7, 8))
    assert [table(rows) for rows in one.rows()] == [table(rows) for rows in two.rows()]
    assert [table(rows) for rows in one.rows()] != [table(rows) for rows in other.rows()]
    assert table(next(iter(one.rows()))).schema == INPUT_ARROW


def test_the_history_has_every_car_and_day_and_half_of_what_is_asked_is_in_it(tmp_path: Path) -> None:
    traffic = Traffic(expressways=2, seconds=400, from_minute=15, seed=3)
    said = seconds(traffic)
    path = tmp_path / "history.parquet"
    write_history(path, max(said["vid"]), traffic.expressways, traffic.seed)
    rows = pq.read_table(path)
    assert rows.num_rows == max(said["vid"]) * 69
    tolls, xways = rows["toll"].to_numpy(), rows["xway"].to_numpy()
    assert (tolls.min(), tolls.max()) == (10, 99) and set(xways) == {0, 1}
    vid, day = rows["vid"].to_numpy()[:1000], rows["day"].to_numpy()[:1000]
    xway, toll = history(vid, day, traffic.expressways, traffic.seed)
    assert (xway == xways[:1000]).all() and (toll == tolls[:1000]).all()
    oracle = Oracle()
    oracle.rows(said)
    told = oracle.answers(path)[3]
    assert len(told) and 0.6 < (told[:, 2] > 0).mean() < 0.9
