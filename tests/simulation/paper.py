"""As much of Spark as a node asks for, on paper: frames are plans over lists of rows, segments are lines of JSON.

A streaming query writes what Spark writes, in Spark's order: the sources' logs, the offsets, the state with the job
that computes the batch, the commit. So the code that forks, captures and restores checkpoints works on real files.
Between any two of these steps a process may die.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import xxhash

from rekindle.keeper.records import Segment
from rekindle.state import checkpoint
from rekindle.streams import digest
from rekindle.streams.footers import EventTimes
from rekindle.streams.segments import checksum
from rekindle.streams.writer import EpochWriter
from tests.simulation.clockwork import VirtualThreading

Row = dict[str, Any]
State = dict[str, Any]
SNAPSHOT_EVERY = 4
COMPACT_EVERY = 10


class Fold(Protocol):
    """What a stateful operator does with one batch; it may change ``state``, which must stay JSON."""

    def __call__(self, state: State, inputs: Sequence[Sequence[Row]], watermark_us: int) -> list[Row]: ...


class Damaged(Exception):
    """What Spark raises when it cannot read its state."""


def read_rows(paths: Iterable[str | Path]) -> list[Row]:
    rows: list[Row] = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


def digest_of(rows: Sequence[Row]) -> dict[str, int]:
    """What Spark observes of an epoch, for ``streams.digest``."""
    hashes = [xxhash.xxh64_intdigest(json.dumps(row, sort_keys=True).encode()) for row in rows]
    return {
        digest.ROWS: len(rows),
        digest.HIGH: sum(value >> 32 for value in hashes),
        digest.LOW: sum(value & digest.LOW_BITS for value in hashes),
    }


def observe(rows: Frame) -> str:
    return digest.digest(digest_of(rows.collect()))


# -- frames ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """A frame that is not computed yet: a leaf reads files, the others do something with their inputs."""

    session: Session
    paths: tuple[str, ...] = ()
    inputs: tuple[Plan, ...] = ()
    every: Callable[[Row], list[Row]] | None = None
    together: Fold | None = None

    def each(self, function: Callable[[Row], list[Row]]) -> Plan:
        return Plan(self.session, inputs=(self,), every=function)

    def fold(self, function: Fold, *others: Plan) -> Plan:
        return Plan(self.session, inputs=(self, *others), together=function)

    def leaves(self) -> list[Plan]:
        return [leaf for plan in self.inputs for leaf in plan.leaves()] if self.inputs else [self]

    def compute(self, bring: Callable[[Plan], list[Row]], state: State, watermark_us: int) -> list[Row]:
        if not self.inputs:
            return bring(self)
        inputs = [plan.compute(bring, state, watermark_us) for plan in self.inputs]
        if self.every is not None:
            return [made for row in inputs[0] for made in self.every(row)]
        return self.together(state, inputs, watermark_us) if self.together is not None else inputs[0]

    # What a node asks of a batch frame.

    def collect(self) -> list[Row]:
        return self.compute(lambda leaf: read_rows(leaf.paths), {}, 0)

    # What it asks of a streaming one.

    @property
    def writeStream(self) -> StreamWriter:
        return StreamWriter(self)


class Frame(Protocol):
    def collect(self) -> list[Row]: ...


@dataclass
class _Reader:
    session: Session

    def schema(self, _: object) -> _Reader:
        return self

    def option(self, *_: object) -> _Reader:
        return self

    def parquet(self, *paths: str) -> Plan:
        return Plan(self.session, paths)


class _Anything:
    """Takes any call, does nothing."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self


class Session:
    """In place of a SparkSession. ``at`` is called between the steps of a batch."""

    def __init__(self, threads: VirtualThreading, at: Callable[[str], None], proc: Any) -> None:
        self.threads = threads
        self.at = at
        gateway: Any = SimpleNamespace(proc=proc)
        self.sparkContext: Any = _Anything()
        setattr(self.sparkContext, "_gateway", gateway)  # noqa: B010
        self.conf = _Anything()

    def newSession(self) -> Session:
        return self

    @property
    def read(self) -> _Reader:
        return _Reader(self)

    readStream = read

    def stop(self) -> None:
        """Nothing runs here."""


# -- streaming ---------------------------------------------------------------------------------------


@dataclass
class StreamWriter:
    plan: Plan
    place: Path = Path()
    batch: Callable[[Any, int], None] = field(default=lambda rows, number: None)

    def outputMode(self, _: str) -> StreamWriter:
        return self

    def option(self, name: str, value: str) -> StreamWriter:
        if name == "checkpointLocation":
            self.place = Path(value)
        return self

    def foreachBatch(self, batch: Callable[[Any, int], None]) -> StreamWriter:
        self.batch = batch
        return self

    def start(self) -> Stream:
        return Stream(self.plan, self.place, self.batch)


class Batch:
    """The frame that foreachBatch gets: computed when it is asked for, and the state with it."""

    def __init__(self, stream: Stream, number: int, files: Mapping[int, list[str]], watermark_us: int) -> None:
        self._stream, self._number, self._files, self._watermark_us = stream, number, files, watermark_us
        self._rows: list[Row] | None = None

    def collect(self) -> list[Row]:
        if self._rows is None:
            self._rows = self._stream.compute(self._number, self._files, self._watermark_us)
        return self._rows


class Stream:
    """A running query. Its sources watch the inbox; whatever they find new makes one batch."""

    def __init__(self, plan: Plan, place: Path, batch: Callable[[Any, int], None]) -> None:
        self._plan, self._place, self._batch = plan, place, batch
        self._session = plan.session
        self._leaves = plan.leaves()
        self._inbox = Path(self._leaves[0].paths[0]).parent.parent
        self._names = [Path(leaf.paths[0]).name for leaf in self._leaves]
        self._seen: set[str] = set()
        self._stopping = self._session.threads.Event()
        self._error: Exception | None = None
        self._max_us = 0
        self._thread = self._session.threads.Thread(target=self._main, name="stream execution thread")
        self._thread.start()

    # What a node asks of it.

    @property
    def isActive(self) -> bool:
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60.0)

    def _main(self) -> None:
        try:
            while not self._stopping.is_set():
                folders = sorted(f for f in os.listdir(self._inbox) if f not in self._seen)
                if not folders:
                    self._stopping.wait(0.1)
                    continue
                self._seen.update(folders)
                self._one(folders)
        except Exception as error:
            self._error = error

    def _one(self, folders: list[str]) -> None:
        done = checkpoint.numbered(self._place / "commits")
        number = done[-1] + 1 if done else 0
        watermark_us = self._watermark(number)
        self._max_us = watermark_us
        if number == 0:
            self._write("metadata", "{}")
        if (self._place / "offsets" / str(number)).exists():
            # Planned before a restart: Spark computes that plan again, and what is new only afterwards.
            files = {leaf: self._logged(leaf, number) for leaf in range(len(self._leaves))}
            self._seen.difference_update(folders)
        else:
            files = {leaf: self._log_source(leaf, number, folders) for leaf in range(len(self._leaves))}
        self._session.at("sources")
        described = {"batchWatermarkMs": watermark_us // 1000, "conf": {"spark.sql.shuffle.partitions": "1"}}
        lines = [f'{{"logOffset":{number}}}'] * len(self._leaves)
        self._write(f"offsets/{number}", "\n".join(["v1", json.dumps(described), *lines]))
        self._session.at("offsets")
        rows = Batch(self, number, files, watermark_us)
        self._batch(rows, number)
        self._session.at("before_commit")
        if self._stopping.is_set():
            return
        self._write(f"commits/{number}", f'v1\n{{"nextBatchWatermarkMs":{self._max_us // 1000}}}')
        self._session.at("commit")
        self._forget(number)

    def _watermark(self, number: int) -> int:
        if number == 0:
            return 0
        text = (self._place / "commits" / str(number - 1)).read_text()
        return int(json.loads(text.splitlines()[1])["nextBatchWatermarkMs"]) * 1000

    def _log_source(self, leaf: int, number: int, folders: list[str]) -> list[str]:
        name = self._names[leaf]
        files = [f"{self._inbox}/{f}/{name}/{p}" for f in folders for p in sorted(os.listdir(self._inbox / f / name))]
        entries = [
            json.dumps({"path": path, "timestamp": int(os.stat(path).st_mtime * 1000), "batchId": number})
            for path in files
        ]
        log = f"sources/{leaf}/{number}"
        if number % COMPACT_EVERY == COMPACT_EVERY - 1:
            log += ".compact"
            first = number - COMPACT_EVERY
            for older in (f"{first}.compact", *(str(n) for n in range(first + 1, number))):
                if (self._place / "sources" / str(leaf) / older).exists():
                    entries = [
                        *(self._place / "sources" / str(leaf) / older).read_text().splitlines()[1:],
                        *entries,
                    ]
        self._write(log, "\n".join(["v1", *entries]))
        return files

    def _logged(self, leaf: int, number: int) -> list[str]:
        found: list[str] = []
        for log in (self._place / "sources" / str(leaf)).glob(f"{number}*"):
            entries = map(json.loads, log.read_text().splitlines()[1:])
            found += [entry["path"] for entry in entries if entry["batchId"] == number]
        return found

    def compute(self, number: int, files: Mapping[int, list[str]], watermark_us: int) -> list[Row]:
        state = self._load(number)
        before = json.dumps(state)
        places = {id(leaf): files[at] for at, leaf in enumerate(self._leaves)}
        delay_us = 0

        def bring(leaf: Plan) -> list[Row]:
            rows = read_rows(places[id(leaf)])
            for row in rows:
                self._max_us = max(self._max_us, row.get("ts", 0) - delay_us)
            return rows

        rows = self._plan.compute(bring, state, watermark_us)
        self._store(number + 1, json.loads(before), state)
        self._session.at("state")
        return rows

    # The state: a changelog for each version, every few versions a snapshot beside it.

    def _load(self, version: int) -> State:
        folder = self._place / "state/0/0"
        state: State = {}
        if version == 0:
            return state
        snapshots = [int(n.split(".")[0]) for n in os.listdir(folder) if n.endswith(".snapshot")]
        start = max((n for n in snapshots if n <= version), default=0)
        try:
            if start:
                state = json.loads((folder / f"{start}.snapshot").read_text())
            for number in range(start + 1, version + 1):
                for key, value in json.loads((folder / f"{number}.changelog").read_text()).items():
                    if value is None:
                        state.pop(key, None)
                    else:
                        state[key] = value
        except (OSError, ValueError) as error:
            raise Damaged(f"[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] {error}") from error
        return state

    def _store(self, version: int, before: State, after: State) -> None:
        changes: State = {key: value for key, value in after.items() if before.get(key) != value}
        changes |= {key: None for key in before if key not in after}
        self._write(f"state/0/0/{version}.changelog", json.dumps(changes))
        if version % SNAPSHOT_EVERY == 0:
            self._write(f"state/0/0/{version}.snapshot", json.dumps(after))

    def _forget(self, number: int) -> None:
        """Spark removes the versions before a snapshot that is old enough."""
        if number % SNAPSHOT_EVERY == 0:
            kept = number - number % SNAPSHOT_EVERY - 2 * SNAPSHOT_EVERY
            folder = self._place / "state/0/0"
            for name in os.listdir(folder):
                version = int(name.split(".")[0])
                if version < kept:
                    (folder / name).unlink()

    def _write(self, name: str, text: str) -> None:
        path = f"{self._place}/{name}"
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


# -- segments ----------------------------------------------------------------------------------------


class PaperWriter(EpochWriter):
    """The real writer, but for what is in a file."""

    def add_frame(self, rows: Any) -> None:
        made = rows.collect()
        self._merge(digest_of(made))
        self._put(made)

    def add_table(self, rows: Any) -> None:
        self._copied = True
        self._put(rows)

    def _put(self, rows: list[Row]) -> None:
        path = self._next()
        write_rows(path, rows)
        self._files.append(path)

    def _describe(self, path: Path) -> tuple[Segment, EventTimes | None]:
        rows = read_rows([path])
        times = [row["ts"] for row in rows if "ts" in row]
        known = EventTimes(min(times), max(times)) if times else None
        size = os.stat(path).st_size
        return Segment(str(path.relative_to(self._home.root)), len(rows), size, checksum(path)), known


class PaperParquet:
    """In place of pyarrow.parquet, where an empty file is written."""

    @staticmethod
    def write_table(rows: Any, path: Path) -> None:
        write_rows(path, rows)


class PaperSchema:
    @staticmethod
    def empty_table() -> list[Row]:
        return []


def arrow_schema(_: object) -> PaperSchema:
    return PaperSchema()


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
