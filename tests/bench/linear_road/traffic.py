"""Reports written by hand, and state in a dictionary."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bench.linear_road.generate import Traffic
from bench.linear_road.oracle import Report
from bench.linear_road.road import Ints

FEET = 5280
Said = dict[str, list[int]]


def at(
    time: int, vid: int, seg: int, *, lane: int = 1, spd: int = 30, xway: int = 0, dir: int = 0, feet: int = 0
) -> Report:
    return Report(time, vid, spd, xway, lane, dir, seg, seg * FEET + feet)


def input_of(reports: Iterable[Report], queries: Iterable[tuple[int, int, int]] = ()) -> Said:
    """Columns of the input. ``queries`` are for balances: time, vid, qid."""
    rows = [(r.time, 0, r.vid, r.spd, r.xway, r.lane, r.dir, r.seg, r.pos, -1, -1) for r in reports]
    rows += [(time, 2, vid, -1, -1, -1, -1, -1, -1, qid, -1) for time, vid, qid in queries]
    names = ("time", "type", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "day")
    return {name: list(column) for name, column in zip(names, zip(*sorted(rows), strict=True), strict=True)}


def seconds(traffic: Traffic) -> Said:
    """The input of all seconds."""
    parts = list(traffic.rows())
    return {name: np.concatenate([part[name] for part in parts]).tolist() for name in parts[0]}


class Remembered(dict[str, bytes]):
    def put(self, name: str, value: bytes) -> None:
        self[name] = value


class Kept:
    """A ledger."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.shelves: dict[int, bytes] = {}

    def log(self) -> list[bytes]:
        return list(self.entries)

    def append(self, entry: bytes) -> None:
        self.entries.append(entry)

    def clear_log(self) -> None:
        self.entries.clear()

    def shelf(self, number: int) -> bytes | None:
        return self.shelves.get(number)

    def put_shelf(self, number: int, value: bytes) -> None:
        self.shelves[number] = value


def stacked(said: Said, names: Iterable[str]) -> Ints:
    return np.array([said[name] for name in names], dtype=np.int32)
