"""A folder of files an epoch, which appears whole or not at all.

    out/epoch=000000000012/part-00000.json

The folder's name is the idempotency key: an epoch whose folder is there was delivered. It is written as a
hidden sibling, made durable, and renamed. A hidden note says which sink of which home delivers here; no other
does, since it would take foreign epochs for its own.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rekindle.errors import DeclarationError, SinkError
from rekindle.home import durable_create
from rekindle.sinks.base import Delivery, Sink, Writer
from rekindle.sinks.disk import Disk

FORMATS = ("json", "csv", "parquet")
OWNER = ".rekindle-sink"
TEMPORARY = re.compile(r"\.epoch=\d{12}\.[0-9]+\.[0-9]+\.tmp\Z")
TEMPORARY_TRIES = 100

HINTS = {
    errno.ENOSPC: "free some space; the epoch is delivered again, nothing is lost",
    errno.EDQUOT: "raise the quota or free some space; the epoch is delivered again, nothing is lost",
    errno.EACCES: "give this user write access to the folder",
    errno.EPERM: "give this user write access to the folder",
    errno.EROFS: "the file system is mounted read-only",
}


class Files(Sink):
    """Every epoch as a folder ``epoch=<12 digits>`` in ``path``, in the format json, csv or parquet.

    Every epoch appears, one without rows too (an empty JSON file, a CSV header, a Parquet schema), so the
    numbers have no holes and a consumer knows that epoch n is complete when its folder is there. The same
    epoch comes out byte for byte the same. JSON and CSV are one file; Parquet is a copy of each segment.

    JSON is one object a line with every column in it, null included: timestamps as ISO 8601 (``Z`` for
    timestamp, nothing for timestamp_ntz), decimals as exact numbers, binary as base64, maps as objects,
    NaN and the infinities as strings. CSV takes no nested columns.
    """

    def __init__(self, path: str | os.PathLike[str], *, format: str = "json") -> None:
        if format not in FORMATS:
            raise DeclarationError(f"a file sink of the unknown format {format!r}", hint=f"one of {', '.join(FORMATS)}")
        if "://" in os.fspath(path):
            raise DeclarationError(f"{os.fspath(path)!r} is not a folder of this host", hint="mount it")
        self.path = Path(path)
        self.format = format

    def open(self) -> FilesWriter:
        return FilesWriter(self.path.absolute(), self.format)

    @property
    def guarantee(self) -> str:
        return "precise"

    def describe(self) -> str:
        return f"files: {self.path} ({self.format})"

    def redirected(self, folder: Path) -> Files:
        return Files(folder, format=self.format)


class FilesWriter(Writer):
    """Removes what dead writers left, and nothing else: a living one holds a lock on its hidden folder."""

    def __init__(self, folder: Path, format: str, disk: Disk | None = None) -> None:
        self.folder = folder
        self.format = format
        self.disk = disk or Disk()
        self._numbers = itertools.count()
        self._owned = False
        with self._explained("the folder of a file sink cannot be used"):
            folder.mkdir(parents=True, exist_ok=True)
            self._sweep()

    def close(self) -> None:
        """A writer that died meanwhile may have left something too."""
        with self._explained("the folder of a file sink cannot be cleaned"):
            self._sweep()

    def _sweep(self) -> None:
        for name in sorted(os.listdir(self.folder)):
            if TEMPORARY.match(name):
                self._remove_if_dead(self.folder / name)

    def deliver(self, delivery: Delivery) -> None:
        final = self.folder / f"epoch={delivery.epoch:012d}"
        with self._explained(f"epoch {delivery.epoch} of {delivery.stream!r} cannot be written"):
            if not self._owned:
                self._own(delivery)
                self._owned = True
            if not _delivered(final):
                self._write(delivery, final)
            # Also for an epoch that was there: who renamed it may have died before this line.
            self.disk.sync_folder(self.folder)

    def _own(self, delivery: Delivery) -> None:
        """Make sure that no other sink delivers, or has delivered, into this folder."""
        me = {"home": delivery.home, "pipeline": delivery.pipeline, "sink": delivery.sink, "stream": delivery.stream}
        note = self.folder / OWNER
        if not note.exists() and not any(_delivered(epoch) for epoch in self.folder.glob("epoch=*")):
            durable_create(note, json.dumps(me).encode())
        owner = note.read_text(errors="replace") if note.exists() else "no note of whose they are"
        if owner != json.dumps(me):
            raise SinkError(
                f"the folder of sink {delivery.sink!r} holds epochs that are not its own",
                detail=f"{self.folder}: {owner}; this is {json.dumps(me)}",
                hint="give every sink, and every new home, a folder of its own, or remove this one",
            )

    def _write(self, delivery: Delivery, final: Path) -> None:
        with self._temporary(final.name) as hidden:
            for index, part in enumerate(self._parts(delivery, hidden)):
                if part.name != f"part-{index:05d}.{self.format}":
                    raise SinkError("the parts of an epoch are out of order", detail=str(part))
                self.disk.sync(part)
            self.disk.sync_folder(hidden)
            try:
                self.disk.rename(hidden, final)
            except OSError:
                if not _delivered(final):
                    raise
                # Another incarnation was faster with the same bytes; ours are removed.

    def _parts(self, delivery: Delivery, hidden: Path) -> Iterator[Path]:
        """Write the files of an epoch, one after the other."""
        from rekindle.sinks import render

        if self.format == "parquet" and delivery.segments:
            for index, segment in enumerate(delivery.segments):
                part = hidden / f"part-{index:05d}.parquet"
                self.disk.copy(segment, part)
                yield part
            return
        part = hidden / f"part-00000.{self.format}"
        self.disk.write(part, render.chunks(self.format, delivery))
        yield part

    @contextmanager
    def _temporary(self, name: str) -> Iterator[Path]:
        """A hidden folder that is locked while this process lives, and gone afterwards."""
        for _ in range(TEMPORARY_TRIES):
            hidden = self.folder / f".{name}.{os.getpid()}.{next(self._numbers)}.tmp"
            try:
                self.disk.make_folder(hidden)
            except FileExistsError:  # left by a process of another host with our number
                continue
            break
        else:
            raise SinkError("no hidden folder can be made", detail=str(self.folder), hint="remove .epoch=*.tmp there")
        fd = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield hidden
        except Exception:
            self.disk.remove_tree(hidden)
            raise
        else:
            if hidden.exists():
                self.disk.remove_tree(hidden)
        finally:
            os.close(fd)

    def _remove_if_dead(self, hidden: Path) -> None:
        try:
            fd = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        else:
            self.disk.remove_tree(hidden)
        finally:
            os.close(fd)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Whatever the disk or Arrow say becomes a SinkError."""
        import pyarrow as pa

        try:
            yield
        except OSError as error:
            raise SinkError(
                f"{what}: {error.strerror or error}",
                detail=str(self.folder),
                hint=HINTS.get(error.errno or 0, "see the system's own message"),
            ) from error
        except (pa.ArrowException, UnicodeError, OverflowError, ValueError) as error:
            raise SinkError(
                f"{what}: a value cannot be rendered as {self.format}",
                detail=f"{self.folder}: {error}"[:500],
                hint="convert the column in an operator, or use format='parquet'",
            ) from error


def _delivered(final: Path) -> bool:
    """Whether the epoch's folder is there. An empty one is not ours: a rename replaces it."""
    try:
        with os.scandir(final) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
