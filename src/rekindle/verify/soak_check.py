"""Checks, row by row and while it runs, what the pipeline ``everything`` publishes and delivers.

Every row follows from the generator's seed and its number, so what must come out is computed again without Spark. Each
epoch is read once, soon after it was published; its record is looked at once more later. All that is kept of the past
is one bit a row and one entry a window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from rekindle.errors import EpochTrimmed, SegmentDamaged
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.sources.rate import Rate
from rekindle.streams.segments import read_batches

if TYPE_CHECKING:
    import pyarrow as pa

KEYS, SEED = 20, 1
WINDOWS = ("rolled", "passive", "active", "upstream")
ROWS = ("events", "clean", "called", "gapped")
WINDOW_US = DELAY_US = 1_000_000
AGAIN_AFTER = 20  # epochs of a stream until its record is looked at again
KEPT_FOLDERS = 40
BLOCK = 1 << 16
SAMPLES_MIN = 20  # of a third of the time

Integers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """What was found of one stream or sink."""

    checked: int = 0
    lost: int = 0
    duplicated: int = 0
    changed: int = 0
    examples: list[str] = field(default_factory=list)

    def bad(self, kind: str, rows: int, example: str) -> None:
        if rows:
            setattr(self, kind, getattr(self, kind) + rows)
            if len(self.examples) < 5:
                self.examples.append(f"{kind}: {example}")

    def to_json(self) -> dict[str, Any]:
        return {
            "checked": self.checked,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "changed": self.changed,
            "examples": self.examples,
        }


class Oracle:
    """What the generator brings, by the number of the row."""

    def __init__(self, rows_per_s: int, start_us: int) -> None:
        self.rows_per_s = rows_per_s
        self.start_us = start_us
        self._rate = Rate(rows_per_s, keys=KEYS, seed=SEED)

    def table(self, begin: int, end: int) -> pa.Table:
        return self._rate.rows(self.start_us, begin, end)

    def columns(self, begin: int, end: int) -> tuple[Integers, Integers, Integers]:
        """ts in microseconds, key and value of the rows from ``begin`` to ``end``."""
        table = self.table(begin, end)
        return tuple(table[name].cast("int64").to_numpy() for name in ("ts", "key", "value"))

    def windows(self, start_us: int, through: int) -> dict[int, tuple[int, int]]:
        """By key, the count and the sum of values of the rows of a window, of the first ``through`` rows."""
        first = max(0, (start_us - self.start_us) * self.rows_per_s // 1_000_000 - 1)
        last = min(through, (start_us + WINDOW_US - self.start_us) * self.rows_per_s // 1_000_000 + 2)
        if last <= first:
            return {}
        ts, key, value = self.columns(first, last)
        inside = (ts >= start_us) & (ts < start_us + WINDOW_US)
        counts = np.bincount(key[inside], minlength=KEYS)
        sums = np.bincount(key[inside], weights=value[inside], minlength=KEYS).astype(np.int64)
        return {k: (int(counts[k]), int(sums[k])) for k in range(KEYS) if counts[k]}


class Seen:
    """Which rows came, a bit for each."""

    def __init__(self) -> None:
        self._bits: Bits = np.zeros(BLOCK, dtype=np.bool_)

    def take(self, seqs: Integers) -> int:
        """Remember rows; how many of them had come before."""
        if not len(seqs):
            return 0
        top = int(seqs.max()) + 1
        if top > len(self._bits):
            self._bits = np.concatenate([self._bits, np.zeros(max(top, len(self._bits)), dtype=np.bool_)])
        unique = np.unique(seqs)
        again = len(seqs) - len(unique) + int(self._bits[unique].sum())
        self._bits[unique] = True
        return again

    def missing(self, due: Integers) -> Integers:
        """Those of ``due`` that have not come."""
        there = due < len(self._bits)
        return np.concatenate([due[there][~self._bits[due[there]]], due[~there]])

    def count(self) -> int:
        return int(self._bits.sum())


class Check:
    """Call ``look`` again and again, and ``finish`` when the pipeline has come to its end."""

    def __init__(self, home: Home, out: Path, rows_per_s: int) -> None:
        self._home = home
        self._out = out
        self._rows_per_s = rows_per_s
        self._oracle: Oracle | None = None
        self.tallies: dict[str, Tally] = {name: Tally() for name in (*ROWS, *WINDOWS, "files", "told")}
        self._heads: dict[str, int] = {}
        self._seen: dict[str, Seen] = {name: Seen() for name in (*ROWS, "files")}
        self._windows: dict[str, set[tuple[int, int]]] = {name: set() for name in WINDOWS}
        self._cache: dict[int, dict[int, tuple[int, int]]] = {}
        self._again: dict[str, deque[Epoch]] = {}
        self._told: dict[str, tuple[int, int]] = {}
        self._told_at = 0
        self._clean: dict[int, tuple[int, int]] = {}  # rows and sum of recent epochs, for those who are told later
        self._taken: set[str] = set()
        self._through = 0
        self.dropped = 0
        self.missed: list[str] = []

    @property
    def checked(self) -> int:
        return sum(tally.checked for tally in self.tallies.values())

    def look(self, keeper: Keeper) -> None:
        """Check what has come since. Raises KeeperUnavailable."""
        if self._oracle is None:
            first = keeper.claim_of("events", EpochNumber(1))
            if first is None:
                return
            self._oracle = Oracle(self._rows_per_s, int(first.spans["events"].through["start_us"]))
        for stream in (*ROWS, *WINDOWS):
            for epoch in keeper.epochs(stream, after=self._heads.get(stream, 0)):
                self._epoch(stream, epoch)
                self._heads[stream] = epoch.epoch
                later = self._again.setdefault(stream, deque())
                later.append(epoch)
                if len(later) > AGAIN_AFTER:
                    self._look_again(keeper, later.popleft())
        self._folders()
        self._calls()

    def finish(self, keeper: Keeper) -> None:
        """What should have come and did not."""
        self.look(keeper)
        if self._oracle is None:
            self.missed.append("nothing was generated")
            return
        last = keeper.last_claim("events")
        through = self._through = 0 if last is None else int(last.spans["events"].through["seq"])
        for stream, later in self._again.items():
            for epoch in later:
                self._look_again(keeper, epoch)
            if keeper.events(kinds=["output_differs"]):
                self.missed.append(f"output_differs is on record ({stream})")
        for begin in range(0, through, 1 << 20):
            _, _, value = self._oracle.columns(begin, min(begin + (1 << 20), through))
            seqs = np.arange(begin, begin + len(value), dtype=np.int64)
            for name, due in (
                ("events", seqs),
                ("clean", seqs[value % 10 != 0]),
                ("files", seqs[value % 10 != 0]),
                ("called", seqs[value % 50 == 1]),
            ):
                gone = self._seen[name].missing(due)
                self.tallies[name].bad("lost", len(gone), f"rows {gone[:3].tolist()} never came")
        gapped = self._seen["gapped"].count() + self.dropped
        if gapped != through:
            self.tallies["gapped"].bad(
                "lost", abs(through - gapped), f"{gapped} of {through} rows came or are on record"
            )
        self._missing_windows(through)
        told = sum(rows for rows, _ in self._told.values())
        due = self._seen["clean"].count()
        if told != due:
            self.tallies["told"].bad("lost", abs(due - told), f"{told} rows were told of {due}")

    # -- streams -------------------------------------------------------------------------------------

    def _epoch(self, stream: str, epoch: Epoch) -> None:
        number = self._heads.get(stream)
        if number is not None and epoch.epoch != number + 1:
            self.missed.append(
                f"epochs {number + 1} to {epoch.epoch - 1} of {stream} were gone before they were looked at"
            )
        if epoch.output.dropped is not None:
            if stream == "gapped":
                self.dropped += epoch.output.dropped
            else:
                self.tallies[stream].bad("lost", epoch.output.dropped, f"epoch {epoch.epoch} was dropped")
            return
        try:
            batches = list(read_batches(self._home, [epoch]))
        except (SegmentDamaged, EpochTrimmed) as error:
            self.missed.append(f"{stream} {epoch.epoch}: {error.primary}")
            return
        if not batches:
            self._note_clean(stream, epoch, np.zeros(0, dtype=np.int64))
            return
        columns = {name: _integers([batch.column(name) for batch in batches]) for name in batches[0].schema.names}
        if stream in WINDOWS:
            self._check_windows(stream, epoch, columns)
        else:
            self._check_rows(stream, columns, f"epoch {epoch.epoch}")
            self._note_clean(stream, epoch, columns["seq"])

    def _note_clean(self, stream: str, epoch: Epoch, seqs: Integers) -> None:
        if stream == "clean":
            self._clean[epoch.epoch] = (len(seqs), int(seqs.sum()))

    def _check_rows(self, name: str, columns: Mapping[str, Integers], where: str) -> None:
        if self._oracle is None or not len(columns["seq"]):
            return
        tally, seqs = self.tallies[name], columns["seq"]
        begin = int(seqs.min())
        ts, key, value = self._oracle.columns(begin, int(seqs.max()) + 1)
        at = seqs - begin
        right = {"ts": ts[at], "key": key[at], "value": value[at], "doubled": 2 * value[at]}
        wrong = np.zeros(len(seqs), dtype=np.bool_)
        for column, found in columns.items():
            if column != "seq":
                wrong |= found != right[column]
        if name in ("clean", "files"):
            wrong |= value[at] % 10 == 0
        if name == "called":
            wrong |= value[at] % 50 != 1
        tally.checked += len(seqs)
        tally.bad("changed", int(wrong.sum()), f"{where}: rows {seqs[wrong][:3].tolist()}")
        tally.bad("duplicated", self._seen[name].take(seqs), f"{where}: some of its rows had come before")

    def _check_windows(self, stream: str, epoch: Epoch, columns: Mapping[str, Integers]) -> None:
        if self._oracle is None:
            return
        tally, known = self.tallies[stream], self._windows[stream]
        for start_us, key, n, total in zip(*(columns[c].tolist() for c in ("start", "key", "n", "total")), strict=True):
            tally.checked += 1
            if start_us not in self._cache:
                if len(self._cache) > 500:
                    self._cache.clear()
                self._cache[start_us] = self._oracle.windows(start_us, 1 << 62)
            where = f"epoch {epoch.epoch}: window {start_us} of key {key}"
            if self._cache[start_us].get(key) != (n, total):
                tally.bad("changed", 1, f"{where} is {(n, total)}, not {self._cache[start_us].get(key)}")
            if (start_us, key) in known:
                tally.bad("duplicated", 1, f"{where} had come before")
            known.add((start_us, key))

    def _missing_windows(self, through: int) -> None:
        """A window is closed by the last watermark: the time of the last row, in whole milliseconds, less the delay."""
        if self._oracle is None or not through:
            return
        ts, _, _ = self._oracle.columns(through - 1, through)
        watermark_us = int(ts[0]) // 1000 * 1000 - DELAY_US
        start_us = self._oracle.start_us // WINDOW_US * WINDOW_US
        while start_us + WINDOW_US <= watermark_us:
            due = self._oracle.windows(start_us, through)
            for stream in WINDOWS:
                gone = [key for key in due if (start_us, key) not in self._windows[stream]]
                self.tallies[stream].bad("lost", len(gone), f"window {start_us} of keys {gone[:3]}")
            start_us += WINDOW_US

    def _look_again(self, keeper: Keeper, epoch: Epoch) -> None:
        now = keeper.epoch(epoch.stream, epoch.epoch)
        if now is not None and now != epoch:
            self.tallies[epoch.stream].bad("changed", epoch.output.rows, f"the record of epoch {epoch.epoch}")

    # -- sinks ---------------------------------------------------------------------------------------

    def _folders(self) -> None:
        """The files sink. A receiver takes what it has read away, but leaves the newest."""
        import shutil

        import pyarrow.parquet as pq

        folders = sorted(path for path in (self._out / "clean").glob("epoch=*"))
        for folder in folders:
            if folder.name in self._taken:
                continue
            self._taken.add(folder.name)
            for file in sorted(folder.iterdir()):
                table = pq.read_table(file)
                columns = {name: _integers(table[name].chunks) for name in table.schema.names}
                self._check_rows("files", columns, folder.name)
        for folder in folders[:-KEPT_FOLDERS]:
            shutil.rmtree(folder)

    def _calls(self) -> None:
        """The function that is called: at least once, the same each time."""
        path = self._out / "told.jsonl"
        if not path.exists():
            return
        tally = self.tallies["told"]
        with open(path, "rb") as file:
            file.seek(self._told_at)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                call = orjson.loads(line)
                number = int(call["key"].rpartition("/")[2])
                if number not in self._clean and number > max(self._clean, default=0):
                    break  # its epoch is looked at next time
                self._told_at += len(line)
                got = (call["rows"], call["sum"])
                tally.checked += call["rows"]
                right = self._told.get(call["key"], self._clean.get(number))
                if right is not None and got != right:
                    tally.bad("changed", call["rows"], f"call {call['key']} had {got}, not {right}")
                self._told[call["key"]] = got


def _integers(chunks: list[Any]) -> Integers:
    parts = [chunk.cast("int64").to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def is_flat(samples: Sequence[float], *, grace: float, slack: float) -> bool | None:
    """Whether a figure does not grow any more: its peaks (nine tenths of the samples lie below) in the last third of
    the time are no higher than ``grace`` times those of the third before, and ``slack``. None if there are too few
    samples to say."""
    third = len(samples) // 3
    if third < SAMPLES_MIN:
        return None
    before, after = (float(np.quantile(part, 0.9)) for part in (samples[third : 2 * third], samples[-third:]))
    return after <= before * grace + slack
