"""The road's two stateful operators, by numpy: the accident detector and the toll calculator.

They share a key, a part of the roads (a road is an expressway and a direction), and are one Spark operator
(``operators``): between two fragments every report would be written and read once more. Here is no Spark: a ``Part``
takes the reports of an epoch, second by second, and reads and writes its state as bytes, through a ``Memory``.

What is relied on, all of it given by the world of Linear Road: an epoch holds whole seconds (the input has a file a
second), a car reports every 30 s until it exits, and a new trip begins in lane 0. So the cars are kept by the second of
the half minute in which they report, and an epoch of a second reads and writes a thirtieth of them.

Tolls and zones of a minute follow from the minutes before it. So they are tables, made when the minute begins.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bench.linear_road.world import EAST, ENTRY, EXIT, REPORT_S, SEGMENTS

Ints = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

REPORT = ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos")
CROSSING = ("time", "vid", "xway", "dir", "lav", "toll", "accident", "charged")
"""What is said of a crossing: the segment's LAV and toll (-1 on the exit ramp, where nothing is announced), the segment
of the nearest accident in the zone (-1 if none), and what is charged for the segment before."""

MINUTES = 5
GONE_S = 90
ANEW_S = 60
STOPPED = 4
ZONE = 5
LANES = 5

VID, TIME, CELL, SPOT, REPEATS, ANNOUNCED = range(6)
"""The rows of a table of cars. A cell is a road and a segment, a spot a position and a lane."""


class Memory(Protocol):
    """State as bytes, by name; None where there is none."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, value: bytes) -> None: ...


class OutOfOrder(Exception):
    """Input that is not as it must be: a second came twice, or after a later one, or a car twice in it."""


@dataclass(frozen=True, slots=True)
class Roads:
    """The roads of one part: those whose number (2 * expressway + direction) is ``part`` modulo ``parts``."""

    expressways: int
    part: int
    parts: int

    @property
    def count(self) -> int:
        return len(range(self.part, 2 * self.expressways, self.parts))

    @property
    def directions(self) -> Ints:
        return np.arange(self.part, 2 * self.expressways, self.parts, dtype=np.int32) % 2

    def cells(self, xway: Ints, direction: Ints, seg: Ints) -> Ints:
        return ((xway * 2 + direction) // self.parts * SEGMENTS + seg).astype(np.int32)


# -- the accident detector -------------------------------------------------------------------------------


@dataclass(slots=True)
class Accident:
    cell: int
    spot: int
    cars: list[int]
    started: int
    cleared: int | None = None

    def counts_in(self, minute: int) -> bool:
        return self.started < minute and (self.cleared is None or minute <= self.cleared)


@dataclass(slots=True)
class AccidentDetector:
    """Few cars stop at all, so what it keeps of them is JSON."""

    stopped: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    accidents: list[Accident] = field(default_factory=list)

    @classmethod
    def load(cls, said: bytes | None) -> AccidentDetector:
        if said is None:
            return cls()
        stopped, accidents = json.loads(said)
        return cls({(cell, spot): cars for cell, spot, cars in stopped}, [Accident(*one) for one in accidents])

    def dump(self) -> bytes:
        stopped = [[*place, cars] for place, cars in self.stopped.items()]
        accidents = [[a.cell, a.spot, a.cars, a.started, a.cleared] for a in self.accidents]
        return json.dumps([stopped, accidents]).encode()

    def stops(self, vid: int, cell: int, spot: int, minute: int) -> None:
        there = self.stopped.setdefault((cell, spot), [])
        there.append(vid)
        lasting = any((a.cell, a.spot) == (cell, spot) and a.cleared is None for a in self.accidents)
        if len(there) >= 2 and not lasting:
            self.accidents.append(Accident(cell, spot, list(there), minute))

    def moves(self, vid: int, cell: int, spot: int, minute: int) -> None:
        there = self.stopped.get((cell, spot), [])
        if vid in there:
            there.remove(vid)
            if not there:
                del self.stopped[cell, spot]
        for accident in self.accidents:
            if (accident.cell, accident.spot) == (cell, spot) and accident.cleared is None and vid in accident.cars:
                accident.cleared = minute

    def nearest(self, minute: int, roads: Roads) -> Ints:
        """For every cell the segment of the nearest accident in its zone, or -1."""
        self.accidents = [a for a in self.accidents if a.cleared is None or minute <= a.cleared]
        found = np.full((roads.count, SEGMENTS), -1, dtype=np.int32)
        here = np.zeros((roads.count, SEGMENTS), dtype=bool)
        for accident in self.accidents:
            if accident.counts_in(minute):
                here[divmod(accident.cell, SEGMENTS)] = True
        if here.any():
            east = roads.directions == EAST
            for distance in reversed(range(ZONE)):
                for road in np.flatnonzero(here.any(axis=1)):
                    at = np.flatnonzero(here[road])
                    zone = at - distance if east[road] else at + distance
                    inside = (zone >= 0) & (zone < SEGMENTS)
                    found[road, zone[inside]] = at[inside]
        return found.ravel()


# -- the toll calculator ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Statistics:
    """Of each cell: reports, speeds and distinct cars of this minute, the first two for five minutes back, and the cars
    of the minute before. ``time`` is the last second that was taken in."""

    minute: int
    time: int
    now: Ints  # reports, speeds, cars
    past: Ints  # minutes back, (reports, speeds)
    cars_before: Ints

    @classmethod
    def load(cls, said: bytes | None, cells: int) -> Statistics:
        if said is None:
            empty = np.zeros((3, cells), np.int32), np.zeros((MINUTES, 2, cells), np.int32), np.zeros(cells, np.int32)
            return cls(0, -1, *empty)
        numbers = np.frombuffer(said, dtype=np.int32)
        now, past, before = np.split(numbers[2:].copy(), [3 * cells, (3 + 2 * MINUTES) * cells])
        past = past.reshape(MINUTES, 2, cells)
        return cls(int(numbers[0]), int(numbers[1]), now.reshape(3, cells), past, before)

    def dump(self) -> bytes:
        head = np.array([self.minute, self.time], dtype=np.int32)
        return np.concatenate([head, self.now.ravel(), self.past.ravel(), self.cars_before]).tobytes()

    def turn_to(self, minute: int) -> None:
        for _ in range(min(minute - self.minute, MINUTES + 1)):
            self.past = np.concatenate([self.now[None, :2], self.past[:-1]])
            self.cars_before = self.now[2]
            self.now = np.zeros_like(self.now)
        self.minute = minute

    def lav(self) -> Ints:
        reports, speeds = self.past.sum(axis=0, dtype=np.int64)
        rounded: Ints = ((2 * speeds + reports) // np.maximum(2 * reports, 1)).astype(np.int32)
        return rounded

    def tolls(self, lav: Ints, free: Mask) -> Ints:
        """``free`` are the cells in the zone of an accident."""
        over = np.where((self.cars_before > 50) & (lav < 40) & ~free, self.cars_before - 50, 0)
        return (2 * over * over).astype(np.int32)


class Part:
    """One part of the roads, for one epoch."""

    def __init__(self, roads: Roads, memory: Memory) -> None:
        self._roads = roads
        self._memory = memory
        self._cells = roads.count * SEGMENTS
        self._statistics = Statistics.load(memory.get("statistics"), self._cells)
        before = memory.get("detector")
        self._detector = AccidentDetector.load(before)
        self._detector_before = before
        self._cars: dict[int, Ints] = {}
        self._make_tables()

    def epoch(self, reports: Ints) -> Ints:
        """``reports`` are rows as named in REPORT, in any order. Returns what there is to say, rows as in CROSSING."""
        reports = reports[:, np.lexsort((reports[1], reports[0]))]
        times, starts = np.unique(reports[0], return_index=True)
        if len(times) and times[0] <= self._statistics.time:
            raise OutOfOrder(f"second {times[0]} comes after second {self._statistics.time}")
        said = [
            self._second(int(time), second)
            for time, second in zip(times, np.split(reports, starts[1:], axis=1), strict=True)
        ]
        return np.concatenate(said, axis=1) if said else np.empty((len(CROSSING), 0), np.int32)

    def save(self) -> None:
        self._memory.put("statistics", self._statistics.dump())
        detector = self._detector.dump()
        if detector != self._detector_before:
            self._memory.put("detector", detector)
        for phase, cars in self._cars.items():
            self._memory.put(f"cars {phase}", cars.tobytes())

    def _make_tables(self) -> None:
        self._zone = self._detector.nearest(self._statistics.minute, self._roads)
        self._lav = self._statistics.lav()
        self._toll = self._statistics.tolls(self._lav, self._zone >= 0)

    def _second(self, time: int, reports: Ints) -> Ints:
        minute = time // 60 + 1
        if minute != self._statistics.minute:
            self._statistics.turn_to(minute)
            self._make_tables()
        self._statistics.time = time
        cars = self._cars_of(time % REPORT_S)
        _, vid, spd, xway, lane, direction, seg, pos = reports
        if (vid[1:] == vid[:-1]).any():
            raise OutOfOrder(f"a car reports twice in second {time}")
        cell, spot = self._roads.cells(xway, direction, seg), pos * LANES + lane

        at = np.minimum(np.searchsorted(cars[VID], vid), max(0, cars.shape[1] - 1))
        known = cars[VID, at] == vid if cars.shape[1] else np.zeros(len(vid), bool)
        last = cars[:, at] if cars.shape[1] else np.zeros((len(cars), len(vid)), np.int32)
        exited = known & (last[SPOT] % LANES == EXIT)
        heard = ~exited | (lane == ENTRY)
        if not heard.all():
            reports, cell, spot, last = reports[:, heard], cell[heard], spot[heard], last[:, heard]
            known, exited = known[heard], exited[heard]
            _, vid, spd, xway, lane, direction, seg, pos = reports

        fresh = ~known | ((lane == ENTRY) & (exited | (time - last[TIME] > ANEW_S)))
        crossing = fresh | (cell != last[CELL])
        leaving = lane == EXIT
        announced = np.where(leaving, 0, np.where(crossing, self._toll[cell], last[ANNOUNCED]))
        said = np.stack([
            np.full(len(vid), time, np.int32), vid, xway, direction,
            np.where(leaving, -1, self._lav[cell]), np.where(leaving, -1, self._toll[cell]),
            np.where(leaving, -1, self._zone[cell]), np.where(fresh, 0, last[ANNOUNCED]),
        ])[:, crossing]  # fmt: skip

        again = known & (cell == last[CELL]) & (last[TIME] // 60 + 1 == minute)
        now = self._statistics.now
        now[0] += np.bincount(cell, minlength=self._cells)
        now[1] += np.bincount(cell, weights=spd, minlength=self._cells).astype(np.int32)
        now[2] += np.bincount(cell[~again], minlength=self._cells)

        same = known & (cell == last[CELL]) & (spot == last[SPOT])
        repeats = np.where(same, np.minimum(last[REPEATS] + 1, STOPPED), 1)
        stops = (repeats == STOPPED) & (last[REPEATS] == STOPPED - 1) & (lane != ENTRY) & (lane != EXIT)
        moves = known & ~same & (last[REPEATS] == STOPPED)
        for i in np.flatnonzero(stops | moves).tolist():
            if stops[i]:
                self._detector.stops(int(vid[i]), int(cell[i]), int(spot[i]), minute)
            else:
                self._detector.moves(int(vid[i]), int(last[CELL, i]), int(last[SPOT, i]), minute)

        fields = [vid, np.full(len(vid), time), cell, spot, repeats, announced]
        self._cars[time % REPORT_S] = _updated(cars, np.stack(fields).astype(np.int32), time - GONE_S)
        return said.astype(np.int32)

    def _cars_of(self, phase: int) -> Ints:
        if phase not in self._cars:
            said = self._memory.get(f"cars {phase}")
            self._cars[phase] = np.frombuffer(said or b"", dtype=np.int32).reshape(ANNOUNCED + 1, -1)
        return self._cars[phase]


def _updated(cars: Ints, new: Ints, since: int) -> Ints:
    """The table with new rows in place of old ones, without cars that were silent since, in the order of VID."""
    at = np.searchsorted(new[VID], cars[VID])
    replaced = new[VID, np.minimum(at, new.shape[1] - 1)] == cars[VID] if new.shape[1] else np.zeros(len(at), bool)
    both = np.concatenate([cars[:, ~replaced & (cars[TIME] >= since)], new], axis=1)
    return both[:, np.argsort(both[VID], kind="stable")]
