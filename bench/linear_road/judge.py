"""Is what came out what had to come out, and in time? As multisets, type by type, without the time of writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bench.linear_road.oracle import FIELDS

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

KEYS = {0: 2, 1: 5, 2: 2, 3: 2}
"""By type, how many of its first FIELDS name an answer."""
NAMES = {0: "toll", 1: "accident", 2: "balance", 3: "expenditure"}
DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class Differences:
    """Of one type. ``lost`` answers are not there, ``repeated`` ones are there more often than they should, ``wrong``
    ones say something else, ``unexpected`` ones answer nothing that was asked."""

    expected: int = 0
    lost: int = 0
    repeated: int = 0
    wrong: int = 0
    unexpected: int = 0

    @property
    def sound(self) -> bool:
        return not (self.lost or self.repeated or self.wrong or self.unexpected)

    def __str__(self) -> str:
        if self.sound:
            return f"{self.expected:,} right"
        counts = {name: count for name, count in asdict(self).items() if count and name != "expected"}
        return f"of {self.expected:,}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())


def compare(kind: int, found: Longs, expected: Longs) -> Differences:
    """Both are rows as in ``oracle.FIELDS``."""
    rows = np.concatenate([expected, found])
    keys = _groups(rows[:, : KEYS[kind]])
    size = int(keys.max()) + 1 if len(keys) else 0
    wanted = np.bincount(keys[: len(expected)], minlength=size)
    there = np.bincount(keys[len(expected) :], minlength=size)
    same = _groups(rows)
    number = int(same.max()) + 1 if len(same) else 0
    both = np.minimum(
        np.bincount(same[: len(expected)], minlength=number), np.bincount(same[len(expected) :], minlength=number)
    )
    of = np.zeros(number, np.int64)
    of[same] = keys
    matched = np.bincount(of, weights=both, minlength=size).astype(np.int64)
    known = wanted > 0
    return Differences(
        expected=len(expected),
        lost=int(np.maximum(wanted - there, 0).sum()),
        repeated=int(np.maximum(there - wanted, 0)[known].sum()),
        wrong=int((np.minimum(wanted, there) - matched).sum()),
        unexpected=int(there[~known].sum()),
    )


def _groups(rows: Longs) -> Longs:
    """A number for each row, the same for equal rows."""
    if not len(rows):
        return np.empty(0, np.int64)
    order = np.lexsort(rows.T)
    ordered = rows[order]
    new = np.concatenate([[0], (ordered[1:] != ordered[:-1]).any(axis=1).astype(np.int64)])
    groups = np.empty(len(rows), np.int64)
    groups[order] = np.cumsum(new)
    return groups


# -- what came out ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """By type: the answers, and for each the time at which it became visible."""

    rows: Mapping[int, Longs]
    emitted_s: Mapping[int, Floats]


def found_in(output: Path) -> Found:
    """All that the sink has shown. An epoch became visible when its folder was renamed."""
    rows: dict[int, list[Longs]] = {kind: [] for kind in FIELDS}
    emitted: dict[int, list[Floats]] = {kind: [] for kind in FIELDS}
    for folder in sorted(output.glob("epoch=*")):
        at_s = folder.stat().st_ctime
        for part in sorted(folder.glob("*.parquet")):
            with pq.ParquetFile(part) as file:
                table = file.read()
            kinds = table["type"].to_numpy()
            if not np.isin(kinds, list(FIELDS)).all():
                raise ValueError(f"{part} has answers of an unknown type")
            for kind, names in FIELDS.items():
                mine = kinds == kind
                rows[kind].append(np.stack([table[n].to_numpy()[mine] for n in names], axis=1).astype(np.int64))
                emitted[kind].append(np.full(int(mine.sum()), at_s))
    none = {kind: np.empty((0, len(names)), np.int64) for kind, names in FIELDS.items()}
    return Found(
        {kind: np.concatenate([none[kind], *rows[kind]]) for kind in FIELDS},
        {kind: np.concatenate([np.empty(0), *emitted[kind]]) for kind in FIELDS},
    )


# -- in time ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Latency:
    """Of the answers of one type to what came in real time."""

    answers: int
    p50_s: float
    p99_s: float
    max_s: float
    late: int


def latency(found: Found, kind: int, from_time: int, began_s: float) -> Latency | None:
    """Second ``from_time`` was at ``began_s`` by the clock; answers to what came before are not looked at."""
    times = found.rows[kind][:, 0]
    paced = times >= from_time
    if not paced.any():
        return None
    took = found.emitted_s[kind][paced] - (began_s + times[paced] - from_time)
    p50, p99 = np.percentile(took, [50, 99])
    return Latency(int(paced.sum()), float(p50), float(p99), float(took.max()), int((took > DEADLINE_S).sum()))


@dataclass(frozen=True, slots=True)
class Verdict:
    differences: Mapping[int, Differences]
    latencies: Mapping[int, Latency | None]

    @property
    def right(self) -> bool:
        return all(of.sound for of in self.differences.values())

    @property
    def in_time(self) -> bool:
        """Every answer that came. One that did not is not right; it is not asked for here."""
        return all(of is None or of.late == 0 for of in self.latencies.values())

    def as_json(self) -> dict[str, Any]:
        return {
            NAMES[kind]: {
                "differences": asdict(self.differences[kind]),
                "latency": asdict(of) if (of := self.latencies[kind]) is not None else None,
            }
            for kind in FIELDS
        } | {"right": self.right, "in_time": self.in_time}


def judged(found: Found, expected: Mapping[int, Longs], from_time: int, began_s: float) -> Verdict:
    return Verdict(
        {kind: compare(kind, found.rows[kind], expected[kind]) for kind in FIELDS},
        {kind: latency(found, kind, from_time, began_s) for kind in FIELDS},
    )
