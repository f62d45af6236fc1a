"""The input that all peers of a benchmark get: rows that follow from their numbers, files, and a feeder at a pace."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

FIRST_US = 1_700_000_000_000_000
ROW_US = 100  # of event time from one row to the next: at 10,000 rows/s it goes as fast as the clock
WINDOW_S = 10
FILE_ROWS = 250_000
PACE_ROWS = 1_000
PACE_S = 0.1

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """``count`` rows from number ``first`` on. Those below ``loaded`` bear their own number as key, so that the first
    ``loaded`` rows name every key once; the keys of all others are random, but always the same for the same ``first``.
    """

    first: int
    count: int
    keys: int
    loaded: int = 0

    def columns(self) -> tuple[Numbers, Numbers, Numbers]:
        """Row number, key, value."""
        generator = np.random.default_rng(self.first)
        numbers = np.arange(self.first, self.first + self.count)
        keys = generator.integers(0, self.keys, self.count)
        return numbers, np.where(numbers < self.loaded, numbers, keys), generator.integers(0, 1000, self.count)

    def write(self, path: Path) -> None:
        """As a Parquet file that appears whole."""
        numbers, keys, values = self.columns()
        table = pa.table(
            {
                "ts": pa.array(FIRST_US + numbers * ROW_US, pa.timestamp("us", "UTC")),
                "seq": pa.array(numbers),
                "key": pa.array(keys),
                "value": pa.array(values),
            }
        )
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        os.rename(hidden, path)


def arrived(path: Path) -> float:
    """When the file was renamed into its folder: renaming sets the time of its last change of status."""
    return path.stat().st_ctime


def every_key(source: Path, keys: int) -> list[Rows]:
    """Large files that name every key once."""
    written = []
    for index, first in enumerate(range(0, keys, FILE_ROWS)):
        rows = Rows(first, min(FILE_ROWS, keys - first), keys, loaded=keys)
        rows.write(source / f"loaded-{index:06d}.parquet")
        written.append(rows)
    return written


class Feeder:
    """Adds a file of 1,000 rows every 100 ms, in a thread, until ``stop``. ``fed`` is what it wrote."""

    def __init__(self, source: Path, keys: int, first: int) -> None:
        self.fed: list[Rows] = []
        self._source = source
        self._keys = keys
        self._first = first
        self._ending = threading.Event()
        self._raised: list[Exception] = []
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Raises what the thread raised."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._raised:
            raise self._raised[0]

    def _feed(self) -> None:
        try:
            for rows in self._at_pace():
                rows.write(self._source / f"paced-{len(self.fed):06d}.parquet")
                self.fed.append(rows)
        except Exception as error:
            self._raised.append(error)

    def _at_pace(self) -> Iterator[Rows]:
        begin_s = time.monotonic()
        while not self._ending.wait(max(0.0, begin_s + len(self.fed) * PACE_S - time.monotonic())):
            yield Rows(self._first + len(self.fed) * PACE_ROWS, PACE_ROWS, self._keys)


class Tally:
    """The newest count and sum of each key, as outputs tell them. With windows a key counts anew in each."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.counts = np.zeros(keys, dtype=np.int64)
        self.sums = np.zeros(keys, dtype=np.int64)

    @staticmethod
    def of_input(rows: list[Rows], keys: int, *, windowed: bool) -> Tally:
        """What the input comes to."""
        tally = Tally(keys)
        for part in rows:
            numbers, key, value = part.columns()
            slots = tally._slots(key, numbers * ROW_US // (WINDOW_S * 1_000_000) if windowed else None)
            np.add.at(tally.counts, slots, 1)
            np.add.at(tally.sums, slots, value)
        return tally

    def apply(self, output: pa.Table) -> None:
        """Take in an epoch of an update stream: columns key, n, sum, and ``starts``, if it is windowed."""
        starts = None
        if "starts" in output.column_names:
            starts = (_numbers(output["starts"].cast(pa.int64())) - FIRST_US) // (WINDOW_S * 1_000_000)
        slots = self._slots(_numbers(output["key"]), starts)
        self.counts[slots] = _numbers(output["n"])
        self.sums[slots] = _numbers(output["sum"])

    def rows(self) -> int:
        return int(self.counts.sum())

    def differing(self, other: Tally) -> int:
        """How many keys differ."""
        self._grow(len(other.counts))
        other._grow(len(self.counts))
        return int(((self.counts != other.counts) | (self.sums != other.sums)).sum())

    def above(self, other: Tally) -> int:
        """How many keys have a higher count or sum than in ``other``."""
        self._grow(len(other.counts))
        other._grow(len(self.counts))
        return int(((self.counts > other.counts) | (self.sums > other.sums)).sum())

    def _slots(self, keys: Numbers, windows: Numbers | None) -> Numbers:
        slots = keys if windows is None else windows * self.keys + keys
        if len(slots):
            self._grow(int(slots.max()) + 1)
        return slots

    def _grow(self, size: int) -> None:
        if size > len(self.counts):
            more = np.zeros(-(-size // self.keys) * self.keys - len(self.counts), dtype=np.int64)
            self.counts = np.concatenate([self.counts, more])
            self.sums = np.concatenate([self.sums, more])


def _numbers(column: pa.ChunkedArray) -> Numbers:
    found: Numbers = column.to_numpy()
    return found
