"""Each rule of Linear Road, by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.linear_road.oracle import (
    Accident,
    Oracle,
    Report,
    Statistics,
    average,
    is_ignored,
    minute_of,
    starts_anew,
    toll_of,
    zone,
)
from tests.bench.linear_road.traffic import at, input_of

CELL = (0, 7, 0)


def answers(reports: list[Report], queries: list[tuple[int, int, int]] | None = None) -> dict[int, list[list[int]]]:
    oracle = Oracle()
    oracle.rows(input_of(reports, queries or []))
    return {kind: rows.tolist() for kind, rows in oracle.answers(None).items()}


def crowd(minute: int, seg: int, count: int, spd: int = 30, first: int = 1000) -> list[Report]:
    """``count`` cars that report once in a minute."""
    return [at((minute - 1) * 60 + i % 60, first + i, seg, spd=spd) for i in range(count)]


@pytest.mark.parametrize(("time", "minute"), [(0, 1), (59, 1), (60, 2), (10_799, 180)])
def test_minutes(time: int, minute: int) -> None:
    assert minute_of(time) == minute


@pytest.mark.parametrize(("total", "number", "rounded"), [(0, 0, 0), (5, 2, 3), (7, 3, 2), (8, 3, 3), (79, 2, 40)])
def test_an_average_is_rounded_half_up(total: int, number: int, rounded: int) -> None:
    assert average(total, number) == rounded


def test_nov_counts_distinct_cars_of_the_minute() -> None:
    statistics = Statistics()
    for vid in (1, 2, 1):
        statistics.observe(4, CELL, vid, 50)
    assert statistics.nov(4, CELL) == 2
    assert statistics.nov(3, CELL) == statistics.nov(4, (0, 7, 1)) == 0


def test_lav_is_of_all_reports_of_the_five_minutes_before() -> None:
    statistics = Statistics()
    for minute, spd in ((1, 90), (2, 10), (3, 20), (6, 30), (6, 30), (7, 99)):
        statistics.observe(minute, CELL, 1, spd)
    assert statistics.lav(7, CELL) == average(10 + 20 + 30 + 30, 4)  # not minute 1, not minute 7
    assert statistics.lav(7, (0, 8, 0)) == 0


@pytest.mark.parametrize(
    ("nov", "lav", "accident", "toll"),
    [(50, 39, False, 0), (51, 39, False, 2), (51, 40, False, 0), (60, 0, False, 200), (60, 0, True, 0)],
)
def test_the_toll(nov: int, lav: int, accident: bool, toll: int) -> None:
    assert toll_of(nov, lav, accident) == toll


def test_starting_anew_and_being_ignored() -> None:
    assert starts_anew(0, False, 61, 0) and not starts_anew(0, False, 60, 0) and not starts_anew(0, False, 61, 1)
    assert starts_anew(0, True, 30, 0)
    assert is_ignored(True, 1) and is_ignored(True, 4) and not is_ignored(True, 0) and not is_ignored(False, 4)


def test_every_crossing_is_told_the_first_report_too_and_lane_4_is_not() -> None:
    trip = [at(0, 1, 5, lane=0), at(30, 1, 5), at(60, 1, 6), at(90, 1, 8), at(120, 1, 9, lane=4)]
    assert [row[0] for row in answers(trip)[0]] == [0, 60, 90]


def test_a_car_that_comes_back_within_60_s_goes_on_and_after_that_starts_anew() -> None:
    def told(back: int) -> list[int]:
        return [row[0] for row in answers([at(0, 1, 5), at(back, 1, 5, lane=0)])[0]]

    assert told(60) == [0]
    assert told(61) == [0, 61]


def test_after_lane_4_a_car_is_ignored_until_lane_0() -> None:
    trip = [at(0, 1, 5), at(30, 1, 5, lane=4), at(60, 1, 6), at(90, 1, 7, lane=0), at(120, 1, 8)]
    assert [row[0] for row in answers(trip)[0]] == [0, 90, 120]


def test_the_announced_toll_is_of_the_minute_before() -> None:
    reports = [*crowd(1, 5, 60), at(60, 1, 5), at(120, 2, 5)]
    told = {row[1]: row[2:] for row in answers(reports)[0]}
    assert told[1] == [30, 200]
    assert told[2] == [30, 0]  # one car in minute 2


def test_the_toll_is_charged_when_the_car_leaves_the_segment() -> None:
    reports = [*crowd(1, 5, 60), at(60, 1, 5), at(90, 1, 5), at(120, 1, 6)]
    asked = answers(reports, [(90, 1, 1), (119, 1, 2), (120, 1, 3)])[2]
    assert asked == [[90, 1, 90, 0], [119, 2, 119, 0], [120, 3, 120, 200]]


def test_it_is_not_charged_to_who_exits_in_the_segment() -> None:
    reports = [*crowd(1, 5, 60), at(60, 1, 5), at(90, 1, 5, lane=4), at(160, 1, 6, lane=0), at(190, 1, 7)]
    assert answers(reports, [(200, 1, 1)])[2] == [[200, 1, 200, 0]]


def test_exiting_in_a_new_segment_charges_the_one_before_and_announces_nothing() -> None:
    reports = crowd(1, 5, 60) + crowd(1, 6, 60, first=2000) + [at(60, 1, 5), at(90, 1, 6, lane=4)]
    said = answers(reports, [(90, 1, 1), (200, 1, 2)])
    assert [row[0] for row in said[0] if row[1] == 1] == [60]
    assert said[2] == [[90, 1, 90, 200], [200, 2, 200, 200]]


def test_starting_anew_drops_what_was_announced() -> None:
    reports = [*crowd(1, 5, 60), at(60, 1, 5), at(150, 1, 9, lane=0)]
    assert answers(reports, [(150, 1, 1)])[2] == [[150, 1, 150, 0]]


def test_a_balance_has_all_reports_of_its_second() -> None:
    reports = [*crowd(1, 5, 60), at(60, 1, 5), at(90, 1, 6), at(90, 2, 6)]
    oracle = Oracle()
    said = input_of(reports)
    first = [i for i, time in enumerate(said["time"]) if time < 90]
    oracle.rows({name: [column[i] for i in first] for name, column in said.items()})
    oracle.rows(input_of([], [(90, 1, 1)]))  # asked before the car's own report of that second
    oracle.rows(input_of([at(90, 1, 6)]))
    assert oracle.answers(None)[2].tolist() == [[90, 1, 90, 200]]


# -- accidents -------------------------------------------------------------------------------------------


def stopping(vid: int, first: int, reports: int = 4, *, seg: int = 20, lane: int = 2, **of: int) -> list[Report]:
    return [at(first + 30 * i, vid, seg, lane=lane, spd=0, **of) for i in range(reports)]


def accidents(reports: list[Report]) -> list[Accident]:
    oracle = Oracle()
    oracle.rows(input_of(reports))
    return [accident for of in oracle.accidents.of.values() for accident in of]


def test_an_accident_starts_when_the_second_car_has_reported_the_same_place_four_times() -> None:
    assert accidents(stopping(1, 0) + stopping(2, 40)) == [Accident(frozenset({1, 2}), started=3)]
    assert not accidents(stopping(1, 0) + stopping(2, 40, 3))
    assert not accidents(stopping(1, 0, 8))


@pytest.mark.parametrize("other", [{"lane": 3}, {"feet": 1}, {"dir": 1}, {"xway": 1}])
def test_the_place_is_expressway_direction_lane_and_position(other: dict[str, int]) -> None:
    assert not accidents(stopping(1, 0) + stopping(2, 1, **other))


@pytest.mark.parametrize("lane", [0, 4])
def test_there_are_no_accidents_on_ramps(lane: int) -> None:
    assert not accidents(stopping(1, 0, lane=lane) + stopping(2, 1, lane=lane))


def test_four_reports_must_be_in_a_row() -> None:
    broken = [*stopping(2, 0, 3), at(90, 2, 20, lane=2, feet=5), *stopping(2, 120, 3)]
    assert not accidents(stopping(1, 0) + broken)


@pytest.mark.parametrize("mover", [1, 2])
def test_it_clears_when_either_car_moves_and_the_segment_can_have_another(mover: int) -> None:
    first = stopping(1, 0) + stopping(2, 1) + [at(300 + mover, mover, 21)]
    cleared = Accident(frozenset({1, 2}), started=2, cleared=6)
    assert accidents(first) == [cleared]
    again = [at(330, 3 - mover, 21), *stopping(3, 400), *stopping(4, 401)]
    assert accidents(first + again) == [cleared, Accident(frozenset({3, 4}), started=9)]


def test_a_third_car_is_not_of_the_accident() -> None:
    three = stopping(1, 0) + stopping(2, 1) + stopping(3, 2)
    assert accidents([*three, at(300, 3, 21)]) == [Accident(frozenset({1, 2}), started=2)]


def test_zones_go_against_the_traffic_nearest_first() -> None:
    assert list(zone(10, 0)) == [10, 11, 12, 13, 14]
    assert list(zone(10, 1)) == [10, 9, 8, 7, 6]


def test_who_crosses_in_the_zone_is_told_from_the_minute_after_the_start_to_that_of_the_clearing() -> None:
    crash = stopping(1, 0) + stopping(2, 1) + [at(301, 2, 21)]  # starts in minute 2, clears in minute 6
    crossing = [at((minute - 1) * 60 + 30, 100 + minute, 17) for minute in range(1, 9)]
    told = answers(crash + crossing)[1]
    assert [row for row in told if row[1] > 100] == [[(m - 1) * 60 + 30, 100 + m, 0, 20, 0] for m in range(3, 7)]


@pytest.mark.parametrize(("seg", "direction", "told"), [(16, 0, True), (15, 0, False), (20, 0, True), (21, 0, False),
                                                         (24, 1, True), (25, 1, False), (19, 1, False)])  # fmt: skip
def test_how_far_the_zone_reaches(seg: int, direction: int, told: bool) -> None:
    crash = stopping(1, 0, dir=direction) + stopping(2, 1, dir=direction)
    found = answers([*crash, at(150, 9, seg, dir=direction)])[1]
    assert found == ([[150, 9, 0, 20, direction]] if told else [])


def test_the_nearest_accident_is_told() -> None:
    crashes = [r for i, seg in enumerate((22, 20)) for v in (0, 1) for r in stopping(2 * i + v + 1, v, seg=seg)]
    assert answers([*crashes, at(150, 9, 18)])[1] == [[150, 9, 0, 20, 0]]


def test_there_is_no_toll_in_the_zone_and_nothing_is_told_on_the_exit_ramp() -> None:
    crash = stopping(1, 0) + stopping(2, 1)
    reports = crash + crowd(2, 18, 60) + [at(120, 8, 18), at(125, 9, 18, lane=4)]
    said = answers(reports)
    assert [row for row in said[0] if row[1] in (8, 9)] == [[120, 8, 30, 0]]
    assert [row for row in said[1] if row[1] in (8, 9)] == [[120, 8, 0, 20, 0]]


# -- history ---------------------------------------------------------------------------------------------


def test_a_days_expenditure_is_in_the_history_or_0(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    columns = {"vid": ([1, 1], pa.int32()), "day": ([1, 2], pa.int16()), "xway": ([0, 3], pa.int16()),
               "toll": ([10, 99], pa.int16())}  # fmt: skip
    pq.write_table(pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()}), path)
    asked = [(1, 2, 3), (1, 2, 0), (2, 1, 0), (1, 1, 0)]  # vid, day, xway
    names = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "day")
    rows = [(3, 5, vid, -1, xway, -1, -1, -1, -1, qid, day) for qid, (vid, day, xway) in enumerate(asked)]
    oracle = Oracle()
    oracle.rows({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
    assert oracle.answers(path)[3].tolist() == [[5, 0, 99], [5, 1, 0], [5, 2, 0], [5, 3, 10]]
