"""A sink in the place of the user's, which records what a receiver would have got of each delivery, epoch by epoch.

A sink that can be ``redirected`` works for real, into a scratch folder; what appears there, and what is gone from
there, is recorded after each delivery, and before the next one where a delivery was cut off by a crash. Of any other
sink the rows that it is given are recorded, each time; it is called only with ``--real-sinks``.

Fault model. Survived: the process dies at any moment; two processes deliver at the same time. Lost: a receiver that
looked between two records might have seen rows that were there in between only.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from rekindle.sinks.base import Delivery, Sink, Writer
from rekindle.verify.classify import Arrival, canonical

RECORDS = "records"
FOLDER = "delivered"
BEGUN = "begun.json"


class Recorder(Sink):
    """Records into ``folder`` what ``sink`` delivers. ``real`` also calls a sink that cannot be redirected."""

    def __init__(self, sink: Sink, folder: Path, *, real: bool = False) -> None:
        self._sink = sink
        self._folder = folder
        self._redirected = sink.redirected(folder / FOLDER)
        self._real = real

    def open(self) -> RecorderWriter:
        for folder in (RECORDS, FOLDER):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
        if self._redirected is not None:
            return RecorderWriter(self._folder, self._redirected.open(), looks=True)
        return RecorderWriter(self._folder, self._sink.open() if self._real else None, looks=False)

    @property
    def guarantee(self) -> str:
        return self._sink.guarantee

    def describe(self) -> str:
        return f"recorded: {self._sink.describe()}"


class RecorderWriter(Writer):
    def __init__(self, folder: Path, inner: Writer | None, *, looks: bool) -> None:
        self._folder = folder
        self._inner = inner
        self._looks = looks

    def deliver(self, delivery: Delivery) -> None:
        if not self._looks:
            if self._inner is not None:
                self._inner.deliver(delivery)
            with self._alone() as number:
                self._record(number, delivery.epoch, {"": {"rows": list(_rows(delivery)), "gone": []}})
            return
        with self._alone() as number:
            begun = self._folder / BEGUN
            if begun.exists():
                number += self._look(number, orjson.loads(begun.read_bytes())["epoch"])
            _write(begun, {"epoch": delivery.epoch})
        if self._inner is not None:
            self._inner.deliver(delivery)
        with self._alone() as number:
            self._look(number, delivery.epoch)

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()

    def _look(self, number: int, epoch: int) -> int:
        """Record what has changed in the folder since the last record; how many records that made."""
        known, seen = known_files(self._folder), present_files(self._folder / FOLDER)
        changes: dict[str, Any] = {}
        for name in sorted(known.keys() | seen.keys()):
            signature, rows = known.get(name, (None, Counter[str]()))
            if name in seen and signature == seen[name]:
                continue
            now = Counter(rows_of(self._folder / FOLDER / name)) if name in seen else Counter[str]()
            changes[name] = {
                "signature": seen.get(name),
                "rows": [*(now - rows).elements()],
                "gone": [*(rows - now).elements()],
            }
        if changes:
            self._record(number, epoch, changes)
        return 1 if changes else 0

    def _record(self, number: int, epoch: int, files: dict[str, Any]) -> None:
        name = f"{number:09d}.json"
        _write(self._folder / RECORDS / name, {"epoch": epoch, "at_s": time.time(), "files": files})

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Nobody else records meanwhile; gives the number of the next record."""
        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield len(list((self._folder / RECORDS).glob("*.json"))) + 1


def arrivals(folder: Path) -> list[Arrival]:
    """What a sink's receiver got, in order, from the records of its ``Recorder``."""
    found = []
    for record in _records(folder):
        rows = [row for file in record["files"].values() for row in file["rows"]]
        gone = [row for file in record["files"].values() for row in file["gone"]]
        found.append(
            Arrival(
                record["epoch"],
                tuple(sorted(canonical(row) for row in rows)),
                record["at_s"],
                tuple(sorted(canonical(row) for row in gone)),
            )
        )
    return found


def known_files(folder: Path) -> dict[str, tuple[list[int] | None, Counter[str]]]:
    """Each file as it was when it was recorded last: its signature and its rows."""
    known: dict[str, tuple[list[int] | None, Counter[str]]] = {}
    for record in _records(folder):
        for name, file in record["files"].items():
            _, rows = known.get(name, (None, Counter[str]()))
            now = rows - Counter(file["gone"]) + Counter(file["rows"])
            if file.get("signature") is None:
                known.pop(name, None)
            else:
                known[name] = (file["signature"], now)
    return known


def present_files(folder: Path) -> dict[str, list[int]]:
    """The files in a folder, by their size and times. Hidden ones are not there for a receiver."""
    found = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if not name.startswith("."):
                path = Path(place) / name
                stat = path.stat()
                found[str(path.relative_to(folder))] = [stat.st_mtime_ns, stat.st_size, stat.st_ino]
    return found


def rows_of(file: Path) -> list[str]:
    """The rows of a delivered file: of Parquet as JSON, otherwise its lines."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq

        return [_json(row) for row in pq.read_table(file).to_pylist()]
    return [line for line in file.read_text(errors="replace").splitlines() if line]


def _rows(delivery: Delivery) -> Iterator[str]:
    for batch in delivery.batches():
        for row in batch.to_pylist():
            yield _json(row)


def _json(row: dict[str, Any]) -> str:
    return orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS).decode()


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / RECORDS).glob("*.json")):
        yield orjson.loads(path.read_bytes())


def _write(path: Path, value: dict[str, Any]) -> None:
    """The file is there whole, or not at all."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    hidden.write_bytes(orjson.dumps(value))
    os.rename(hidden, path)
