"""A Structured Streaming query in plain Python: one watermark, late rows, and state that is removed behind it.

As in Spark 4.3: a batch goes by the watermark that the batches before it have brought about, to the millisecond; what
it brings is late by the watermark of the batch before; what is behind its own is removed at its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Batch = Mapping[str, Sequence["Row"]]


@dataclass(frozen=True, order=True)
class Row:
    """``seen`` says whether the row passes the filters below the watermark."""

    time_us: int
    key: int
    seen: bool = True


class Query(ABC):
    """Runs batch after batch; ``delays_ms`` are those of the watermarked inputs."""

    def __init__(self, delays_ms: Mapping[str, int]) -> None:
        self._delays_ms = delays_ms
        self._newest_ms: dict[str, int] = {}
        self._watermark_ms = 0
        self._before_ms = 0

    @property
    def watermark_us(self) -> int:
        """The watermark that the next batch goes by."""
        return self._watermark_ms * 1000

    def run(self, batch: Batch) -> Counter[Hashable]:
        rows = {name: [row for row in of if row.seen] for name, of in batch.items()}
        output = Counter(self.batch(rows, self._before_ms * 1000, self._watermark_ms * 1000))
        for name, of in rows.items():
            if of:
                reached_ms = max(row.time_us // 1000 for row in of) - self._delays_ms[name]
                self._newest_ms[name] = max(reached_ms, self._newest_ms.get(name, reached_ms))
        self._before_ms = self._watermark_ms
        least_ms = min(self._newest_ms.get(name, 0) for name in self._delays_ms)
        self._watermark_ms = max(self._watermark_ms, least_ms)
        return output

    @abstractmethod
    def batch(self, rows: Batch, late_us: int, behind_us: int) -> Iterable[Hashable]:
        """The output of one batch: rows at or below ``late_us`` are late, state at or below ``behind_us`` goes."""


class Counts(Query):
    """How many rows each key has in each window; a window of length 0 is the event time itself."""

    def __init__(self, delays_ms: Mapping[str, int], *, length_us: int, slide_us: int, update: bool) -> None:
        super().__init__(delays_ms)
        self._length_us, self._slide_us, self._update = length_us, slide_us, update
        self._state: Counter[tuple[int, int]] = Counter()

    def batch(self, rows: Batch, late_us: int, behind_us: int) -> Iterable[Hashable]:
        touched = set()
        for row in (row for of in rows.values() for row in of):
            for end in self._ends(row.time_us):
                if end > late_us:
                    self._state[end, row.key] += 1
                    touched.add((end, row.key))
        closed = [group for group in self._state if group[0] <= behind_us]
        output = [(*group, self._state[group]) for group in (touched if self._update else closed)]
        for group in closed:
            del self._state[group]
        return output

    def _ends(self, time_us: int) -> list[int]:
        if not self._length_us:
            return [time_us]
        newest = time_us - time_us % self._slide_us
        starts = range(newest, time_us - self._length_us, -self._slide_us)
        return [start + self._length_us for start in starts]


class Repeats(Query):
    """dropDuplicates on event time and key; ``within`` makes it dropDuplicatesWithinWatermark, on the key alone."""

    def __init__(self, delays_ms: Mapping[str, int], *, within: bool = False) -> None:
        super().__init__(delays_ms)
        self._within_us = max(delays_ms.values()) * 1000 if within else None
        self._state: dict[Hashable, int] = {}

    def batch(self, rows: Batch, late_us: int, behind_us: int) -> Iterable[Hashable]:
        output = []
        for row in sorted(row for of in rows.values() for row in of):
            key = row.key if self._within_us is not None else (row.time_us, row.key)
            if row.time_us > late_us and key not in self._state:
                self._state[key] = row.time_us + (self._within_us or 0)
                output.append(row)
        self._state = {key: until for key, until in self._state.items() if until > behind_us}
        return output


@dataclass
class Held:
    row: Row
    matched: bool = False


@dataclass
class Side:
    kept_us: int
    held: list[Held] = field(default_factory=list)


class Join(Query):
    """Rows of ``l`` and ``r`` with the same key and ``l - early <= r <= l + late``; a left outer join if ``outer``."""

    def __init__(self, delays_ms: Mapping[str, int], *, early_us: int, late_us: int, outer: bool) -> None:
        super().__init__(delays_ms)
        self._early_us, self._late_us, self._outer = early_us, late_us, outer
        self._l, self._r = Side(late_us), Side(early_us)

    def batch(self, rows: Batch, late_us: int, behind_us: int) -> Iterable[Hashable]:
        output: list[Hashable] = []
        for name, own, other in (("l", self._l, self._r), ("r", self._r, self._l)):
            for row in rows.get(name, ()):
                if row.time_us <= late_us:
                    continue
                new = Held(row)
                for held in other.held:
                    left, right = (new, held) if name == "l" else (held, new)
                    if self._match(left.row, right.row):
                        left.matched = right.matched = True
                        output.append((left.row, right.row))
                own.held.append(new)
        for side in (self._l, self._r):
            gone = [held for held in side.held if held.row.time_us + side.kept_us < behind_us]
            side.held = [held for held in side.held if held.row.time_us + side.kept_us >= behind_us]
            if self._outer and side is self._l:
                output += [(held.row, None) for held in gone if not held.matched]
        return output

    def _match(self, left: Row, right: Row) -> bool:
        return left.key == right.key and left.time_us - self._early_us <= right.time_us <= left.time_us + self._late_us
