"""A receiver of what a file sink delivers: it looks into the folder again and again and remembers every row.

It knows nothing of epochs, of the keeper or of the pipeline. What it has once seen it goes on watching: a file
that vanishes takes its rows with it, and a file that changes loses some rows and gains others; both are on
record with their time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from rekindle.verify.trace import Content, Observation, RowKey, keyed

UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Something that must not happen to a file that was delivered."""

    at_s: float
    file: str
    what: str  # vanished | changed | rewritten


@dataclass(slots=True)
class _Row:
    key: RowKey
    content: Content
    seen_s: float
    gone_s: float | None = None


@dataclass(slots=True)
class _File:
    signature: tuple[int, int, int]
    rows: list[_Row] = field(default_factory=list)


class Receiver:
    """Reads JSON files in ``folder`` and the folders in it; hidden ones are not there for it.

    ``key`` are the columns that name a row, ``clock`` gives the time of what is seen.
    """

    def __init__(self, folder: Path, key: tuple[str, ...], *, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._key = key
        self._clock = clock
        self._files: dict[str, _File] = {}
        self._rows: list[_Row] = []
        self.disturbances: list[Disturbance] = []
        self.arrivals: list[float] = []  # the times at which rows came

    def look(self, *, thorough: bool = False) -> int:
        """Take in what is new or changed; returns how many rows were new. ``thorough`` reads every file again,
        also those whose size and times are as they were."""
        now_s = self._clock()
        before = len(self._rows)
        present = self._present()
        for name in sorted(self._files.keys() - present.keys()):
            self._vanished(name, now_s)
        for name, signature in sorted(present.items()):
            known = self._files.get(name)
            if known is None or thorough or known.signature != signature:
                self._read(name, signature, now_s)
        new = len(self._rows) - before
        if new:
            self.arrivals.append(now_s)
        return new

    @property
    def rows(self) -> int:
        return len(self._rows)

    def trace(self) -> list[Observation]:
        """Every row that was ever seen, in order."""
        return [Observation(row.key, row.content, row.seen_s, row.gone_s) for row in self._rows]

    def _present(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in files:
                if name.startswith(".") or not name.endswith(".json"):
                    continue
                path = os.path.join(folder, name)
                try:
                    stat = os.stat(path)
                except FileNotFoundError:
                    continue  # gone since it was listed; if it was known, that is noticed
                found[os.path.relpath(path, self._folder)] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        return found

    def _read(self, name: str, signature: tuple[int, int, int], now_s: float) -> None:
        try:
            lines = (self._folder / name).read_bytes().splitlines()
        except FileNotFoundError:
            return  # the next look finds it missing
        found = [self._row(name, number, line) for number, line in enumerate(lines, start=1)]
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = _File(signature)
        elif file.signature != signature:
            same = Counter(found) == Counter((row.key, row.content) for row in file.rows)
            self.disturbances.append(Disturbance(now_s, name, "rewritten" if same else "changed"))
        elif Counter(found) != Counter((row.key, row.content) for row in file.rows):
            self.disturbances.append(Disturbance(now_s, name, "changed"))
        file.signature = signature
        new = Counter(found)
        kept = []
        for row in file.rows:
            if new[row.key, row.content] > 0:
                new[row.key, row.content] -= 1
                kept.append(row)
            else:
                row.gone_s = now_s
        file.rows = kept
        for key, content in new.elements():
            row = _Row(key, content, now_s)
            file.rows.append(row)
            self._rows.append(row)

    def _vanished(self, name: str, now_s: float) -> None:
        for row in self._files.pop(name).rows:
            row.gone_s = now_s
        self.disturbances.append(Disturbance(now_s, name, "vanished"))

    def _row(self, name: str, number: int, line: bytes) -> tuple[RowKey, Content]:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            return RowKey(f"{UNREADABLE} {name}:{number}"), Content(line.decode(errors="replace"))
        return keyed(row, self._key)
