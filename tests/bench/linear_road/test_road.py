"""The toll calculator and the accident detector against the oracle, without Spark."""

from __future__ import annotations

import numpy as np
import pytest

from bench.linear_road.generate import Traffic
from bench.linear_road.oracle import Oracle, Report
from bench.linear_road.road import CROSSING, REPORT, Ints, OutOfOrder, Part, Roads
from tests.bench.linear_road.test_oracle import crowd, stopping
from tests.bench.linear_road.traffic import Remembered, Said, at, input_of, seconds, stacked


def computed(reports: Ints, *, expressways: int, parts: int, epoch_s: int) -> dict[int, list[list[int]]]:
    """The answers of type 0 and 1, and the charges as type -1, in order. State goes through bytes after each epoch."""
    memories = [Remembered() for _ in range(parts)]
    part_of = (reports[3] * 2 + reports[5]) % parts
    found = []
    for first in range(0, int(reports[0].max()) + 1, epoch_s):
        now = (reports[0] >= first) & (reports[0] < first + epoch_s)
        for number, memory in enumerate(memories):
            mine = reports[:, now & (part_of == number)]
            if mine.shape[1]:
                part = Part(Roads(expressways, number, parts), memory)
                found.append(part.epoch(mine[:, ::-1]))
                part.save()
    said = dict(zip(CROSSING, np.concatenate(found, axis=1), strict=True))
    wanted = {
        0: ("lav", 0, ("time", "vid", "lav", "toll")),
        1: ("accident", 0, ("time", "vid", "xway", "accident", "dir")),
        -1: ("charged", 1, ("time", "vid", "charged")),
    }
    return {
        kind: sorted(np.stack([said[n][said[of] >= least] for n in names], axis=1).tolist())
        for kind, (of, least, names) in wanted.items()
    }


def expected(said: dict[str, list[int]]) -> dict[int, list[list[int]]]:
    charges = []

    class Telling(Oracle):
        def charge(self, vid: int, toll: int) -> None:
            if toll:
                charges.append([self._now, vid, toll])

    oracle = Telling()
    oracle.rows(said)
    answers = oracle.answers(None)
    return {0: sorted(answers[0].tolist()), 1: sorted(answers[1].tolist()), -1: sorted(charges)}


@pytest.fixture(scope="module")
def said() -> Said:
    return seconds(Traffic(expressways=2, seconds=200, from_minute=100, seed=9))


@pytest.fixture(scope="module")
def wanted(said: Said) -> dict[int, list[list[int]]]:
    return expected(said)


@pytest.mark.parametrize(("parts", "epoch_s"), [(1, 1), (2, 7), (3, 90)])
def test_it_says_what_the_oracle_says(said: Said, wanted: dict[int, list[list[int]]], parts: int, epoch_s: int) -> None:
    reports = stacked(said, REPORT)[:, np.array(said["type"]) == 0]
    assert computed(reports, expressways=2, parts=parts, epoch_s=epoch_s) == wanted
    assert min(len(of) for of in wanted.values()) > 300


SCENES: dict[str, list[Report]] = {
    "an accident that clears, and another": [
        *stopping(1, 0),
        *stopping(2, 1),
        at(301, 2, 21),
        at(330, 1, 21),
        *stopping(3, 400),
        *stopping(4, 401),
        *[at(60 * minute + 45, 100 + minute, 17) for minute in range(12)],
    ],
    "west": [*stopping(1, 0, dir=1), *stopping(2, 1, dir=1), *[at(150, seg + 9, seg, dir=1) for seg in range(15, 30)]],
    "the ends of the road": [
        *stopping(1, 0, seg=99),
        *stopping(2, 1, seg=99),
        *stopping(3, 2, seg=0, dir=1),
        *stopping(4, 3, seg=0, dir=1),
        *[at(150, 50 + seg, seg) for seg in range(90, 100)],
        *[at(151, 70 + seg, seg, dir=1) for seg in range(10)],
    ],
    "a minute without any report": [*crowd(1, 5, 60), at(60, 1, 5), at(400, 2, 5), at(430, 2, 6)],
    "exits, returns and is ignored": [
        *crowd(1, 5, 60),
        at(60, 1, 5),
        at(90, 1, 5, lane=4),
        at(120, 1, 6),
        at(150, 1, 7, lane=0),
        at(180, 1, 8),
        at(250, 1, 9, lane=0),
        at(280, 1, 9, lane=4),
    ],
    "exits in a new segment": [*crowd(1, 5, 60), at(60, 1, 5), at(90, 1, 6, lane=4)],
    "three at one place": [*stopping(1, 0), *stopping(2, 1), *stopping(3, 2), at(130, 3, 21), at(270, 5, 19)],
}


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("epoch_s", [1, 1000])
def test_scenes(name: str, epoch_s: int) -> None:
    said = input_of(SCENES[name])
    assert computed(stacked(said, REPORT), expressways=1, parts=2, epoch_s=epoch_s) == expected(said)


def test_a_second_that_comes_twice_or_late_is_refused() -> None:
    part = Part(Roads(1, 0, 1), Remembered())
    part.epoch(stacked(input_of([at(5, 1, 3)]), REPORT))
    for time in (5, 4):
        with pytest.raises(OutOfOrder, match=f"second {time} comes after second 5"):
            part.epoch(stacked(input_of([at(time, 2, 3)]), REPORT))


def test_a_car_that_reports_twice_in_a_second_is_refused() -> None:
    with pytest.raises(OutOfOrder, match="twice in second 5"):
        Part(Roads(1, 0, 1), Remembered()).epoch(stacked(input_of([at(5, 1, 3), at(5, 1, 4)]), REPORT))


def test_the_state_of_an_epoch_is_that_of_the_cars_that_report_in_it() -> None:
    written: list[str] = []

    class Told(Remembered):
        def put(self, name: str, value: bytes) -> None:
            written.append(name)
            super().put(name, value)

    part = Part(Roads(1, 0, 1), Told())
    part.epoch(stacked(input_of([at(31, 1, 3), at(32, 2, 3)]), REPORT))
    part.save()
    assert written == ["statistics", "detector", "cars 1", "cars 2"]


def test_cars_that_are_silent_are_forgotten() -> None:
    memory = Remembered()
    for time, vid in ((0, 1), (30, 2), (120, 3)):
        part = Part(Roads(1, 0, 1), memory)
        part.epoch(stacked(input_of([at(time, vid, 3)]), REPORT))
        part.save()
    assert np.frombuffer(memory["cars 0"], np.int32).reshape(6, -1)[0].tolist() == [2, 3]
