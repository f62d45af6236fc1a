"""The traffic of Linear Road: cars that enter, travel, report every 30 s and exit; accidents; queries; the history.

A seeded simulation, second by second, vectorised over the cars that report in that second. The load grows linearly over
three hours up to 1,000 cars a segment and hour; a run may begin at any minute of these hours, with the road as full as
it is then, and with the accidents that happened before. The same ``Traffic`` gives the same rows.

- Cars enter in lane 0 at the start of a segment, more of them in the middle of the expressway, and exit in lane 4 after
  some miles. A part of them comes back later, anywhere, as the same VID.
- The more cars are in a segment the slower they all are.
- An accident: a car stops, and one that follows closely stops at the same place, for 10 to 20 minutes. Meanwhile all
  others crawl in that segment and the one before it.
- 1 % of the reports also ask something: half of these for the balance, a tenth for a day's expenditure, the others for
  a travel time, which nobody implements: they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.linear_road.world import (
    BALANCE,
    COLUMNS,
    DAYS,
    EAST,
    ENTRY,
    EXIT,
    EXPENDITURE,
    INPUT_ARROW,
    POSITION,
    REPORT_S,
    ROAD_FEET,
    SEGMENT_FEET,
    SEGMENTS,
    TRAVEL_LANES,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FULL_MINUTE = 180
FIRST_LOAD = 0.01
CARS_PER_SEGMENT_HOUR = 1_000
CARS_FULL = 51_000  # on an expressway at full load, so 1,700 reports a second
BEFORE_S = 1_260  # of simulation before the first row: longer than an accident lasts
ACCIDENTS_PER_HOUR = 4.0  # for each expressway and direction
ACCIDENT_S = (600, 1_200)
CLOSE_FEET = 3_000
CRAWL_MPH = 12.0
RETURN_S = (97, 120)
RETURN_SHARE = 0.2
QUERY_SHARE = 0.01
BALANCE_SHARE = 0.5
EXPENDITURE_SHARE = 0.1
TRIP_MILES = 18.2
FEET_PER_MPH = SEGMENT_FEET * REPORT_S / 3600  # a mile an hour is so many feet from report to report
FILE_VIDS = 100_000


@dataclass(frozen=True, slots=True)
class Traffic:
    """``seconds`` of traffic on ``expressways``, which begin at ``from_minute`` of the three hours."""

    expressways: int
    seconds: int
    from_minute: float = 0.0
    seed: int = 1

    def rows(self) -> Iterator[dict[str, Ints]]:
        """The input of each second, as its columns. Position reports come first; within a type rows are in the order of
        VID."""
        simulation = Simulation(self)
        for time in range(-BEFORE_S, self.seconds):
            rows = simulation.second(time)
            if time >= 0:
                yield rows

    def load(self, time: int) -> float:
        """The share of the full load."""
        return min(1.0, FIRST_LOAD + (1 - FIRST_LOAD) * max(0.0, self.from_minute + time / 60) / FULL_MINUTE)


def table(rows: dict[str, Ints]) -> pa.Table:
    return pa.table({name: pa.array(rows[name].astype(np.int32)) for name in COLUMNS}, schema=INPUT_ARROW)


# -- cars ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Cars:
    """Those that report in the same second of every half minute. ``ends`` is where they exit; ``until`` is when they
    drive on, if they are stopped; ``lane`` is that of the last report."""

    vid: Ints
    xway: Ints
    dir: Ints
    lane: Ints
    pos: Floats
    ends: Floats
    wants: Floats
    until: Ints

    def only(self, kept: Mask) -> Cars:
        return Cars(*(getattr(self, name)[kept] for name in self.__slots__))

    def and_also(self, more: Cars) -> Cars:
        return Cars(*(np.concatenate([getattr(self, name), getattr(more, name)]) for name in self.__slots__))

    @property
    def cell(self) -> Ints:
        return (self.xway * 2 + self.dir) * SEGMENTS + segment(self.pos)

    @property
    def ahead(self) -> Ints:
        """1 where positions grow on the way, else -1."""
        return np.where(self.dir == EAST, 1, -1)

    def __len__(self) -> int:
        return len(self.vid)


def segment(pos: Floats) -> Ints:
    return pos.astype(np.int64) // SEGMENT_FEET


@dataclass(slots=True)
class Simulation:
    traffic: Traffic

    random: np.random.Generator
    cohorts: list[Cars]
    weights: Floats
    counts: Ints
    accidents: list[tuple[int, int]]
    exited: dict[int, Ints]
    next_vid: int
    next_qid: int

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self.random = np.random.default_rng(traffic.seed)
        bump = 0.5 + np.exp(-(((np.arange(SEGMENTS) - SEGMENTS / 2) / 22.0) ** 2))
        self.weights = np.tile(bump / bump.sum(), 2 * traffic.expressways) / (2 * traffic.expressways)
        self.accidents = []  # cell, until
        self.exited = {}
        self.next_vid = self.next_qid = 1
        on_road = round(CARS_FULL * traffic.expressways * traffic.load(-BEFORE_S))
        cars = self._new(self._numbers(on_road), mid_road=True)
        order = self.random.integers(0, REPORT_S, on_road)
        self.cohorts = [cars.only(order == phase) for phase in range(REPORT_S)]
        self.counts = np.bincount(cars.cell, minlength=len(self.weights))

    def second(self, time: int) -> dict[str, Ints]:
        """All drive on that report in this second, some enter; what they say."""
        phase = time % REPORT_S
        self.accidents = [(cell, until) for cell, until in self.accidents if until > time]
        cars = self.cohorts[phase]
        before = cars.cell
        speed = self._drive(cars, time)
        after = cars.cell
        leaving = cars.lane == EXIT
        entering = self._enter(time)
        size = len(self.weights)
        self.counts += np.bincount(after[~leaving], minlength=size) - np.bincount(before, minlength=size)
        self.counts += np.bincount(entering.cell, minlength=size)
        reporting = cars.and_also(entering)
        said = self._report(time, reporting, np.concatenate([speed, self.random.uniform(5, 30, len(entering))]))
        self.exited[time] = cars.vid[leaving]
        self.exited.pop(time - max(RETURN_S) - 1, None)
        self.cohorts[phase] = cars.only(~leaving).and_also(entering)
        self._accidents(time, phase)
        return said

    def _drive(self, cars: Cars, time: int) -> Floats:
        """Move the cars of a cohort; returns their speed."""
        n = self.counts[cars.cell]
        speed: Floats = np.minimum(cars.wants, 25 + 45 * np.exp(-n / 120)) * self.random.uniform(0.9, 1.1, len(cars))
        crawling = np.isin(cars.cell, self._crawl())
        speed[crawling] = np.minimum(speed[crawling], CRAWL_MPH * self.random.uniform(0.7, 1.3, int(crawling.sum())))
        stopped = cars.until > time
        speed[stopped] = 0.0
        pos = cars.pos + cars.ahead * speed * FEET_PER_MPH
        there = ((pos - cars.ends) * cars.ahead >= 0) & ~stopped
        cars.pos = np.where(there, cars.ends, pos)
        lanes = self.random.integers(TRAVEL_LANES[0], TRAVEL_LANES[-1] + 1, len(cars))
        cars.lane = np.where(there, EXIT, np.where(stopped, cars.lane, lanes))
        return speed

    def _crawl(self) -> list[int]:
        """The cells of accidents, and the one before each on the way."""
        cells = []
        for cell, _ in self.accidents:
            before = cell - 1 if cell // SEGMENTS % 2 == EAST else cell + 1
            cells += [cell, before] if before // SEGMENTS == cell // SEGMENTS else [cell]
        return cells

    def _enter(self, time: int) -> Cars:
        per_s = CARS_PER_SEGMENT_HOUR * SEGMENTS / 3600 * self.traffic.expressways * self.traffic.load(time)
        back = [self.exited.get(time - s, np.empty(0, np.int64))[i :: len(RETURN_S)] for i, s in enumerate(RETURN_S)]
        returning = np.concatenate(back)
        returning = returning[self.random.random(len(returning)) < RETURN_SHARE * len(RETURN_S)]
        new = self.random.poisson(max(0.0, per_s - len(returning)))
        return self._new(np.concatenate([returning, self._numbers(new)]), mid_road=False)

    def _new(self, vid: Ints, *, mid_road: bool) -> Cars:
        random, count = self.random, len(vid)
        cell = random.choice(len(self.weights), count, p=self.weights)
        direction, at = cell // SEGMENTS % 2, cell % SEGMENTS * SEGMENT_FEET
        into = random.integers(0, SEGMENT_FEET, count) if mid_road else np.where(direction == EAST, 0, SEGMENT_FEET - 1)
        pos = (at + into).astype(np.float64)
        miles = 1 + random.exponential(TRIP_MILES - 1, count)
        ends = np.clip(pos + np.where(direction == EAST, 1, -1) * miles * SEGMENT_FEET, 0, ROAD_FEET - 1)
        return Cars(
            vid=vid,
            xway=cell // (2 * SEGMENTS),
            dir=direction,
            lane=random.integers(1, 4, count) if mid_road else np.full(count, ENTRY),
            pos=pos,
            ends=np.floor(ends),
            wants=np.clip(random.normal(60, 8, count), 40, 95),
            until=np.full(count, -BEFORE_S - 1),
        )

    def _numbers(self, count: int) -> Ints:
        self.next_vid += count
        return np.arange(self.next_vid - count, self.next_vid)

    def _accidents(self, time: int, phase: int) -> None:
        """Let some of those that have just reported stop where they are, each with one that comes along behind it."""
        cars = self.cohorts[phase]
        moving = np.flatnonzero((cars.until <= time) & np.isin(cars.lane, TRAVEL_LANES))
        count = self.random.poisson(ACCIDENTS_PER_HOUR / 3600 * 2 * self.traffic.expressways)
        if not count or not len(moving):
            return
        for first in self.random.choice(moving, count):
            until = time + int(self.random.integers(ACCIDENT_S[0], ACCIDENT_S[1] + 1))
            place = np.floor(cars.pos[first])
            for later in range(1, REPORT_S):
                others = self.cohorts[(phase + later) % REPORT_S]
                behind = (place - others.pos) * others.ahead
                close = (others.xway == cars.xway[first]) & (others.dir == cars.dir[first])
                close &= (behind >= 0) & (behind < CLOSE_FEET) & ((others.ends - place) * others.ahead > 0)
                close &= others.until <= time
                if close.any():
                    second = int(np.flatnonzero(close)[0])
                    self.counts[others.cell[second]] -= 1
                    others.pos[second], others.lane[second] = place, cars.lane[first]
                    self.counts[others.cell[second]] += 1
                    others.until[second] = cars.until[first] = until
                    cars.pos[first] = place
                    self.accidents.append((int(cars.cell[first]), until))
                    break

    # -- what is reported ----------------------------------------------------------------------------

    def _report(self, time: int, cars: Cars, speed: Floats) -> dict[str, Ints]:
        order = np.argsort(cars.vid, kind="stable")
        pos = cars.pos[order].astype(np.int64)
        count = len(order)
        reports = {
            "type": np.full(count, POSITION),
            "vid": cars.vid[order],
            "spd": np.clip(np.rint(speed[order]), 0, 100).astype(np.int64),
            "xway": cars.xway[order],
            "lane": cars.lane[order],
            "dir": cars.dir[order],
            "seg": pos // SEGMENT_FEET,
            "pos": pos,
        }
        drawn = self.random.random(count) / QUERY_SHARE
        balance = reports["vid"][drawn < BALANCE_SHARE]
        expenditure = reports["vid"][(drawn >= BALANCE_SHARE) & (drawn < BALANCE_SHARE + EXPENDITURE_SHARE)]
        day = self.random.integers(1, DAYS + 1, len(expenditure))
        traffic = self.traffic
        known, _ = history(expenditure, day, traffic.expressways, traffic.seed)
        some = self.random.integers(0, traffic.expressways, len(expenditure))
        asked = self.random.random(len(expenditure)) < 0.5
        queries = {
            "type": np.repeat([BALANCE, EXPENDITURE], [len(balance), len(expenditure)]),
            "vid": np.concatenate([balance, expenditure]),
            "xway": np.concatenate([np.full(len(balance), -1), np.where(asked, known, some)]),
            "day": np.concatenate([np.full(len(balance), -1), day]),
        }
        asking = len(queries["vid"])
        queries["qid"] = np.arange(self.next_qid, self.next_qid + asking)
        if time >= 0:
            self.next_qid += asking
        said = {}
        for name in COLUMNS:
            parts = [of.get(name, np.full(n, -1)) for of, n in ((reports, count), (queries, asking))]
            said[name] = np.concatenate(parts)
        said["time"] = np.full(count + asking, time)
        return said


# -- history ---------------------------------------------------------------------------------------------


def history(vid: Ints, day: Ints, expressways: int, seed: int) -> tuple[Ints, Ints]:
    """The expressway that a car used on a day, and the toll of that: a function of the numbers alone."""
    mixed = (vid.astype(np.uint64) * np.uint64(DAYS + 1) + day.astype(np.uint64)) ^ np.uint64(seed << 40)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed % np.uint64(expressways)).astype(np.int64), (mixed >> np.uint64(32)).astype(np.int64) % 90 + 10


def write_history(path: Path, vids: int, expressways: int, seed: int) -> None:
    """A row for each VID up to ``vids`` and each day."""
    schema = pa.schema([("vid", pa.int32()), ("day", pa.int16()), ("xway", pa.int16()), ("toll", pa.int16())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(1, vids + 1, FILE_VIDS):
            cars = np.arange(first, min(first + FILE_VIDS, vids + 1))
            vid, day = np.repeat(cars, DAYS), np.tile(np.arange(1, DAYS + 1), len(cars))
            xway, toll = history(vid, day, expressways, seed)
            columns = (vid.astype(np.int32), day.astype(np.int16), xway.astype(np.int16), toll.astype(np.int16))
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))
