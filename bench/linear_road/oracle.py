"""What the answers must be: the rules of Linear Road in plain Python, one rule a function, one report after the other.

Independent of Spark and of the query's code. Rows are taken in the order of their time, and within a second in the
order in which they are given (the generator's: by VID). Where the benchmark's descriptions leave a choice, it is this:

- An average is rounded half up, by whole numbers: (2 * sum + n) // (2 * n).
- A report that is ignored (after a lane-4 report, until lane 0) counts for nothing at all, also not for NOV and LAV.
- A lane-0 report starts a car anew if it comes more than 60 s after the last one, or after a lane-4 report. What was
  announced before and not charged is dropped then.
- The cars of an accident are those that are stopped at its place when it starts; it clears when one of these reports
  another place (expressway, direction, lane or position). A car that stops there while it lasts is not one of them.
- The result time of a balance is the time of the query: charges of that second are in it, later ones are not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

Cell = tuple[int, int, int]  # expressway, segment, direction
Place = tuple[int, int, int, int]  # expressway, direction, lane, position
Ints = npt.NDArray[np.int64]

LANE_ENTRY, LANE_EXIT = 0, 4
WINDOW_MINUTES = 5
FREE_CARS = 50
SLOW_MPH = 40
ANEW_S = 60
STOPPED_REPORTS = 4
ZONE = 5


class Report(NamedTuple):
    time: int
    vid: int
    spd: int
    xway: int
    lane: int
    dir: int
    seg: int
    pos: int


# -- rules -----------------------------------------------------------------------------------------------


def minute_of(time: int) -> int:
    return time // 60 + 1


def average(total: int, number: int) -> int:
    """Rounded half up; 0 of nothing."""
    return (2 * total + number) // (2 * number) if number else 0


def toll_of(nov: int, lav: int, accident: bool) -> int:
    return 2 * (nov - FREE_CARS) ** 2 if nov > FREE_CARS and lav < SLOW_MPH and not accident else 0


def starts_anew(last_time: int, exited: bool, time: int, lane: int) -> bool:
    return lane == LANE_ENTRY and (exited or time - last_time > ANEW_S)


def is_ignored(exited: bool, lane: int) -> bool:
    return exited and lane != LANE_ENTRY


def zone(seg: int, direction: int) -> Iterator[int]:
    """The segments whose accidents matter in ``seg``, nearest first."""
    return iter(range(seg, seg + ZONE) if direction == 0 else range(seg, seg - ZONE, -1))


def is_travel_lane(lane: int) -> bool:
    return LANE_ENTRY < lane < LANE_EXIT


@dataclass(slots=True)
class Accident:
    cars: frozenset[int]
    started: int
    cleared: int | None = None

    def counts_in(self, minute: int) -> bool:
        return self.started + 1 <= minute and (self.cleared is None or minute <= self.cleared)


# -- what is remembered ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Minute:
    """What was reported in one segment in one minute."""

    reports: int = 0
    speeds: int = 0
    cars: set[int] = field(default_factory=set)


class Statistics:
    """NOV and LAV."""

    def __init__(self) -> None:
        self._minutes: dict[int, dict[Cell, Minute]] = {}
        self._lav: dict[tuple[int, Cell], int] = {}

    def observe(self, minute: int, cell: Cell, vid: int, spd: int) -> None:
        if minute not in self._minutes:
            self._minutes = {m: of for m, of in self._minutes.items() if m >= minute - WINDOW_MINUTES}
            self._minutes[minute] = {}
            self._lav = {}
        of = self._minutes[minute]
        seen = of.get(cell)
        if seen is None:
            seen = of[cell] = Minute()
        seen.reports += 1
        seen.speeds += spd
        seen.cars.add(vid)

    def nov(self, minute: int, cell: Cell) -> int:
        seen = self._minutes.get(minute, {}).get(cell)
        return len(seen.cars) if seen is not None else 0

    def lav(self, minute: int, cell: Cell) -> int:
        key = minute, cell
        if key not in self._lav:
            before = range(minute - WINDOW_MINUTES, minute)
            seen = [self._minutes[m][cell] for m in before if cell in self._minutes.get(m, {})]
            self._lav[key] = average(sum(s.speeds for s in seen), sum(s.reports for s in seen))
        return self._lav[key]


@dataclass(slots=True)
class Stay:
    """Where a car is, and for how many reports in a row."""

    place: Place
    reports: int = 0


class Accidents:
    def __init__(self) -> None:
        self._stays: dict[int, Stay] = {}
        self._stopped: dict[Place, set[int]] = {}
        self._open: dict[Place, Accident] = {}
        self.of: dict[Cell, list[Accident]] = {}
        """By the segment where they happened, also those that are cleared."""

    def observe(self, r: Report) -> None:
        place = (r.xway, r.dir, r.lane, r.pos)
        stay = self._stays.get(r.vid)
        if stay is None:
            stay = self._stays[r.vid] = Stay(place)
        if stay.place != place:
            if stay.reports >= STOPPED_REPORTS:
                self._moves(r.vid, stay.place, minute_of(r.time))
            stay.place, stay.reports = place, 0
        stay.reports += 1
        if stay.reports == STOPPED_REPORTS and is_travel_lane(r.lane):
            self._stops(r, place)

    def _stops(self, r: Report, place: Place) -> None:
        there = self._stopped.setdefault(place, set())
        there.add(r.vid)
        if len(there) >= 2 and place not in self._open:
            accident = self._open[place] = Accident(frozenset(there), minute_of(r.time))
            self.of.setdefault((r.xway, r.seg, r.dir), []).append(accident)

    def _moves(self, vid: int, place: Place, minute: int) -> None:
        self._stopped.get(place, set()).discard(vid)
        accident = self._open.get(place)
        if accident is not None and vid in accident.cars:
            accident.cleared = minute
            del self._open[place]

    def nearest(self, minute: int, cell: Cell) -> int | None:
        """The segment of the nearest accident in whose zone ``cell`` is."""
        if not self.of:
            return None
        xway, seg, direction = cell
        for s in zone(seg, direction):
            if any(accident.counts_in(minute) for accident in self.of.get((xway, s, direction), ())):
                return s
        return None


@dataclass(slots=True)
class Car:
    cell: Cell
    time: int
    exited: bool = False
    announced: int = 0
    """The toll that is charged when the car crosses out of its segment."""


# -- answers ---------------------------------------------------------------------------------------------

FIELDS: Mapping[int, tuple[str, ...]] = {
    0: ("time", "vid", "lav", "toll"),
    1: ("time", "vid", "xway", "seg", "dir"),
    2: ("time", "qid", "result_time", "bal"),
    3: ("time", "qid", "bal"),
}
"""By type, the columns of its answers in the order in which ``Oracle.answers`` gives them."""


class Oracle:
    def __init__(self) -> None:
        self.statistics = Statistics()
        self.accidents = Accidents()
        self.cars: dict[int, Car] = {}
        self.balances: dict[int, int] = {}
        self._asked: list[tuple[int, int, int]] = []  # time, vid, qid
        self._now = 0
        self._said = {kind: array("q") for kind in (0, 1, 2)}
        self._expenditures: list[tuple[int, int, int, int, int]] = []  # time, qid, vid, day, xway

    def rows(self, columns: Mapping[str, Sequence[int]]) -> None:
        """Rows of input, in the order of their time."""
        names = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "day")
        for kind, time, vid, spd, xway, lane, direction, seg, pos, qid, day in zip(
            *(columns[name] for name in names), strict=True
        ):
            if time != self._now:
                self.end_of_second()
                self._now = time
            if kind == 0:
                self.report(Report(time, vid, spd, xway, lane, direction, seg, pos))
            elif kind == 2:
                self._asked.append((time, vid, qid))
            elif kind == 3:
                self._expenditures.append((time, qid, vid, day, xway))

    def report(self, r: Report) -> None:
        car = self.cars.get(r.vid)
        if car is not None and is_ignored(car.exited, r.lane):
            return
        minute, cell = minute_of(r.time), (r.xway, r.seg, r.dir)
        self.statistics.observe(minute, cell, r.vid, r.spd)
        self.accidents.observe(r)
        if car is None or starts_anew(car.time, car.exited, r.time, r.lane):
            car = self.cars[r.vid] = Car(cell, r.time)
            self.crosses(car, r, minute, cell)
        elif cell != car.cell:
            self.charge(r.vid, car.announced)
            car.cell = cell
            self.crosses(car, r, minute, cell)
        if r.lane == LANE_EXIT:
            car.announced = 0
        car.exited = r.lane == LANE_EXIT
        car.time = r.time

    def crosses(self, car: Car, r: Report, minute: int, cell: Cell) -> None:
        """Into ``cell``: what is announced."""
        if r.lane == LANE_EXIT:
            return
        accident = self.accidents.nearest(minute, cell)
        lav = self.statistics.lav(minute, cell)
        car.announced = toll_of(self.statistics.nov(minute - 1, cell), lav, accident is not None)
        self._said[0].extend((r.time, r.vid, lav, car.announced))
        if accident is not None:
            self._said[1].extend((r.time, r.vid, r.xway, accident, r.dir))

    def charge(self, vid: int, toll: int) -> None:
        self.balances[vid] = self.balances.get(vid, 0) + toll

    def end_of_second(self) -> None:
        """All reports of the second are in: the balances that were asked for."""
        for time, vid, qid in self._asked:
            self._said[2].extend((time, qid, time, self.balances.get(vid, 0)))
        self._asked.clear()

    def answers(self, history: Path | None) -> dict[int, Ints]:
        """By type, a row for each answer; columns as in ``FIELDS``."""
        self.end_of_second()
        tolls = read_history(history, {(vid, day) for _, _, vid, day, _ in self._expenditures})
        found = array("q")
        for time, qid, vid, day, xway in self._expenditures:
            used, toll = tolls.get((vid, day), (-1, 0))
            found.extend((time, qid, toll if used == xway else 0))
        said = {**self._said, 3: found}
        return {kind: np.array(said[kind], dtype=np.int64).reshape(-1, len(FIELDS[kind])) for kind in FIELDS}


def read_history(path: Path | None, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Of the history file, by VID and day: the expressway and its toll."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    if path is None or not wanted:
        return found
    vids = sorted({vid for vid, _ in wanted})
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1_000_000):
            mine = batch.filter(pc.is_in(batch["vid"], value_set=_values(vids)))
            for vid, day, xway, toll in zip(*(column.to_pylist() for column in mine.columns), strict=True):
                if (vid, day) in wanted:
                    found[vid, day] = (xway, toll)
    return found


def _values(vids: Iterable[int]) -> object:
    import pyarrow as pa

    return pa.array(list(vids), pa.int32())
