"""Writes the segments of one epoch, so that they are durable before anybody is told of them.

An attempt has a folder of its own, named after the epoch, the incarnation and the attempt, so two replicas, or
a replica and its ghost, never write to the same file. The keeper decides whose attempt becomes the epoch;
``drop`` removes the others.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from pyspark.sql import DataFrame, Observation

from rekindle.errors import RekindleError
from rekindle.home import Home, fsync_folder
from rekindle.keeper.records import EMPTY_DIGEST, EpochNumber, Incarnation, Output, Segment
from rekindle.streams import digest
from rekindle.streams.footers import EventTimes, bounds, event_times
from rekindle.streams.segments import checksum

ATTEMPT = re.compile(r"(\d{12})-(\d+)-\d+\Z")
_fsyncs = ThreadPoolExecutor(max_workers=4, thread_name_prefix="fsync")


def segment_name(epoch: int, index: int) -> str:
    """A segment's file name: it sorts by canonical position, and carries it to whoever reads the file."""
    return f"{epoch:012d}-{index:05d}.parquet"


class EpochWriter:
    """The segments of one attempt at one epoch of one stream."""

    def __init__(self, home: Home, stream: str, epoch: EpochNumber, incarnation: Incarnation, attempt: int) -> None:
        self._home = home
        self._epoch = epoch
        self._stream_folder = home.streams / stream
        self.folder = self._stream_folder / f"{epoch:012d}-{incarnation}-{attempt}"
        self._files: list[Path] = []
        self._observed: dict[str, Any] = {}
        self._copied = False
        if self.folder.exists():
            shutil.rmtree(self.folder)
        is_first = not self._stream_folder.exists()
        self.folder.mkdir(parents=True)
        if is_first:
            fsync_folder(home.streams)

    def add_frame(self, rows: DataFrame) -> None:
        """Let Spark compute and write ``rows``; one pass also observes their digest."""
        observation = Observation()
        target = self.folder / "spark"
        observed = rows.observe(observation, *digest.metrics(rows.schema))
        observed.write.mode("overwrite").parquet(str(target))
        found = observation.get
        parts = sorted(target.glob("part-*.parquet"))
        written = sum(pq.read_metadata(part).num_rows for part in parts)
        if written != found[digest.ROWS]:  # a task that was tried again may leave a part behind
            raise RekindleError(
                f"Spark wrote {written} rows of epoch {self._epoch} where it computed {found[digest.ROWS]}",
                detail=str(self.folder),
            )
        self._merge(found)
        for part in parts:
            self._adopt(part)
        shutil.rmtree(target)

    def add_table(self, rows: pa.Table) -> None:
        """Rows held in memory, written as one segment."""
        self._copied = True
        path = self._next()
        pq.write_table(rows, path, compression="snappy", write_page_checksum=True)
        self._files.append(path)

    def add_parquet(self, file: Path) -> None:
        """A copy of a Parquet file, byte for byte."""
        self._copied = True
        path = self._next()
        shutil.copyfile(file, path)
        self._files.append(path)

    def finish(self) -> Output:
        """Make everything durable and describe it."""
        described = list(_fsyncs.map(self._describe, self._files))
        parts = [segment for segment, _ in described]
        segments = tuple(s for s in parts if s.rows > 0)
        times = bounds([times for segment, times in described if segment.rows > 0])
        for part in parts:
            if part.rows == 0:
                (self._home.root / part.path).unlink()
        if segments:
            fsync_folder(self.folder)
            fsync_folder(self._stream_folder)
        else:
            self.drop()
        return Output(
            segments=segments,
            rows=sum(s.rows for s in segments),
            bytes=sum(s.bytes for s in segments),
            digest=self._digest(segments),
            event_time_min_us=times.min_us if times is not None else None,
            event_time_max_us=times.max_us if times is not None else None,
        )

    def drop(self) -> None:
        """Remove this attempt."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _next(self) -> Path:
        return self.folder / segment_name(self._epoch, len(self._files))

    def _adopt(self, part: Path) -> None:
        path = self._next()
        os.rename(part, path)
        self._files.append(path)

    def _merge(self, observed: Mapping[str, Any]) -> None:
        if not self._observed:
            self._observed = dict(observed)
            return
        for key in (digest.ROWS, digest.HIGH, digest.LOW):
            self._observed[key] = (self._observed[key] or 0) + (observed[key] or 0)

    def _describe(self, path: Path) -> tuple[Segment, EventTimes | None]:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        footer = pq.read_metadata(path)
        segment = Segment(str(path.relative_to(self._home.root)), footer.num_rows, size, checksum(path))
        return segment, event_times(footer)

    def _digest(self, segments: tuple[Segment, ...]) -> str:
        """Rows that Spark wrote have a digest of rows; files that were copied, or made here, one of their bytes."""
        if not self._copied:
            return digest.digest(self._observed) if self._observed else EMPTY_DIGEST
        files = xxhash.xxh3_64(" ".join(s.checksum for s in segments).encode()).hexdigest()
        prefix = digest.digest(self._observed) + "+" if self._observed else ""
        return f"{prefix}files:{sum(s.rows for s in segments)}:{files}"


def observe(rows: DataFrame) -> str:
    """Compute ``rows`` without writing them; returns their digest."""
    observation = Observation()
    rows.observe(observation, *digest.metrics(rows.schema)).write.format("noop").mode("overwrite").save()
    return digest.digest(observation.get)


def sweep(home: Home, stream: str, head: int, published: frozenset[str], *, over: frozenset[Incarnation]) -> int:
    """Remove what incarnations that are over wrote at or after ``head`` and never published; returns how many.

    ``over`` must have been asked for before ``head``: what they published is then below it, or among ``published``.
    All others are spared, since they may still publish.
    """
    folder = home.streams / stream
    removed = 0
    for attempt in folder.iterdir() if folder.exists() else ():
        name = ATTEMPT.match(attempt.name)
        if name is None:
            continue  # not ours
        epoch, owner = int(name[1]), Incarnation(int(name[2]))
        if owner in over and epoch >= head and str(attempt.relative_to(home.root)) not in published:
            shutil.rmtree(attempt)
            removed += 1
    return removed
