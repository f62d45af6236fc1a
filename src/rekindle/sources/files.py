"""Files that appear in a folder: Parquet, JSON lines, CSV. A claim records file names.

What is on disk when a claim is read must be what was there when it was made: a claimed file that is gone
or was changed since is an error, never another answer. See ``files_parquet`` and ``files_text`` for how
the two kinds are read.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rekindle.clock import wall
from rekindle.errors import BrokenInvariant, DeclarationError, SourceError
from rekindle.keeper.records import Position, Span
from rekindle.sources import files_parquet, files_text
from rekindle.sources.base import Batch, Reader, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("parquet", "json", "csv")
TEMPORARY = (".tmp", "._COPYING_", ".crdownload", ".part")
FILES_MAX = 1000
RESCAN_S = 1.0
TICK_S = 0.1


class Claimed(NamedTuple):
    """One file of a claim. ``name`` is relative to the folder, with ``/`` between its parts."""

    name: str
    size: int
    mtime_ns: int


class Files(Source):
    """The files of a folder, each taken once, whole, in the order (modification time, name).

    ``path``       a folder that this host can see
    ``format``     parquet, json (one object a line) or csv
    ``schema``     DDL or a StructType. Parquet may leave it out: the oldest file's own schema is taken
    ``options``    of Spark's JSON or CSV reader, with its defaults, for example ``{"header": True, "sep": ";"}``;
                   add ``"escape": '"'`` where quotes are doubled inside quotes, as in RFC 4180
    ``pattern``    which names are taken, as in a shell: ``"*.json"``
    ``recursive``  walk the sub-folders as well (a link to a folder is not followed)
    ``settle_s``   a file is taken once it was last modified this long ago, or once two looks this long
                   apart found the same size and modification time (for clocks that disagree)

    A producer should write elsewhere and rename into the folder. Names that start with ``.`` or ``_`` or
    end in .tmp, .part, .crdownload or ._COPYING_ are never taken. A file that was taken is not looked at
    again: what is appended later, or put under the same name, is not read. A file must stay until the
    epoch that claimed it is published. What cannot be read, the whole file or a row of it, goes to the
    dead letters; blank lines and empty files are no rows.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: str = "parquet",
        schema: str | StructType | None = None,
        options: Mapping[str, Any] | None = None,
        pattern: str = "*",
        recursive: bool = False,
        settle_s: float = 0.05,
        clock: Callable[[], float] = wall,
    ) -> None:
        if format not in FORMATS:
            near = difflib.get_close_matches(str(format), FORMATS, 1)
            raise DeclarationError(
                f"files of the unknown format {format!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"one of {', '.join(FORMATS)}",
            )
        if "://" in os.fspath(path):
            raise DeclarationError(
                f"{os.fspath(path)!r} is not a folder of this host",
                hint="mount it, or read it with rk.sources.Spark",
            )
        if schema is None and format != "parquet":
            raise DeclarationError(
                f"{format} files need a schema",
                detail=os.fspath(path),
                hint='for example schema="id long, name string"',
            )
        if not settle_s >= 0:
            raise DeclarationError(f"settle_s must be a number of seconds, not {settle_s!r}")
        self.path = Path(path)
        self.format = format
        self.pattern = pattern
        self.recursive = recursive
        self.settle_s = settle_s
        self.options = files_text.check_options(format, options or {})
        self._declared = schema
        self._schema: StructType | None = None
        self._clock = clock

    def schema(self, spark: SparkSession) -> StructType:
        from pyspark.errors import PySparkException

        if self._schema is None:
            if self._declared is None:
                self._schema = files_parquet.schema_of(spark, self._oldest())
            else:
                try:
                    self._schema = files_text.nullable(self._declared)
                except PySparkException as error:
                    raise SourceError(
                        f"the schema of {self.describe()} cannot be understood",
                        detail=f"{self._declared!r}: {error}",
                        hint='for example schema="id long, name string"',
                    ) from error
                if self.format != "parquet":
                    files_text.check_schema(self._schema, self.format)
        return self._schema

    def open(self, history: Iterable[Position]) -> FilesReader:
        return FilesReader(self, self._folder(), history, self._clock)

    @property
    def needs_history(self) -> bool:
        """The claims are what knows which files were taken."""
        return True

    def describe(self) -> str:
        return f"files: {self.path} ({self.format}, {self.pattern}{', sub-folders too' if self.recursive else ''})"

    def resolved_schema(self) -> StructType:
        if self._schema is None:
            raise BrokenInvariant("a source is read before its schema was asked for", detail=self.describe())
        return self._schema

    def _folder(self) -> Path:
        folder = self.path.resolve()
        if not folder.is_dir():
            raise SourceError(
                "the folder of a source is not there", detail=str(folder), hint="make it, or correct the path"
            )
        return folder

    def _oldest(self) -> Path:
        folder = self._folder()
        found = sorted(walk(folder, self.pattern, self.recursive, set()), key=lambda f: (f.mtime_ns, f.name))
        for file in found:
            if not leaves(folder, file.name) and files_parquet.has_footer(folder / file.name):
                return folder / file.name
        raise SourceError(
            "there is no Parquet file to take the schema from",
            detail=self.describe(),
            hint='put one there, or declare schema="..."',
        )


@dataclass
class FilesReader(Reader):
    """Position: ``{"count": files claimed so far, "files": [[name, size, mtime_ns], ...] of this epoch}``."""

    source: Files
    folder: Path
    history: Iterable[Position]
    clock: Callable[[], float]
    count: int = 0
    seen: set[str] = field(default_factory=set)
    ready: deque[Claimed] = field(default_factory=deque)
    unsettled: dict[str, tuple[Claimed, float]] = field(default_factory=dict)
    scanned: tuple[int, float] = (-1, 0.0)
    bytes_per_row: float = 0.0

    def __post_init__(self) -> None:
        for position in self.history:
            self._absorb(position)
        self.history = ()

    def newest(self, after: Position | None, rows_max: int) -> Position | None:
        if after is not None:
            self._absorb(after)
        self._drop_seen()
        if not self.ready:
            self._scan()
        taken = self._take(rows_max)
        return {"count": self.count + len(taken), "files": [list(f) for f in taken]} if taken else None

    def read(self, span: Span, batch: Batch) -> None:
        files = [Claimed(*f) for f in span.through["files"]]
        before = 0 if span.after is None else int(span.after["count"])
        if before + len(files) != span.through["count"]:
            raise BrokenInvariant("a claim of files does not follow the one before it", detail=f"{span}"[:500])
        self._check(files, span)
        inside = []
        for file in files:
            if leaves(self.folder, file.name):
                batch.reject(origin=file.name, reason="the link leads out of the folder")
            else:
                inside.append((file.name, self.folder / file.name, file.size))
        schema = self.source.resolved_schema()
        if self.source.format == "parquet":
            files_parquet.bring(inside, schema, batch)
        else:
            files_text.bring(inside, self.folder, self.source.format, schema, self.source.options, batch)
        self._check(files, span)

    def _absorb(self, position: Position) -> None:
        count, files = int(position["count"]), position["files"]
        if count <= self.count:
            return
        if count != self.count + len(files):
            raise BrokenInvariant(
                "a reader of files missed a claim",
                detail=f"it knows {self.count} files, the next claim ends at {count} and has {len(files)}",
                hint="open the source again with all its claims",
            )
        self.seen.update(f[0] for f in files)
        self.count = count

    def _drop_seen(self) -> None:
        while self.ready and self.ready[0].name in self.seen:
            self.ready.popleft()

    def _scan(self) -> None:
        now = self.clock()
        try:
            folder_ns = self.folder.stat().st_mtime_ns
        except OSError as error:
            raise SourceError(
                f"the folder of a source cannot be read: {error.strerror}",
                detail=str(self.folder),
                hint="put it back; what was claimed from it is not lost",
            ) from error
        # A folder whose time stands still has no new names, unless the last look was within one tick of
        # the file system's clock. Clocks may disagree, so a full look comes every RESCAN_S all the same.
        was_ns, was_s = self.scanned
        quiet = folder_ns == was_ns and was_s - was_ns / 1e9 > TICK_S and 0 <= now - was_s < RESCAN_S
        if quiet and not self.source.recursive and not self.unsettled:
            return
        settled, unsettled = [], {}
        for file in walk(self.folder, self.source.pattern, self.source.recursive, self.seen):
            known, since = self.unsettled.get(file.name, (file, now))
            if known != file:
                since = now
            old = now - file.mtime_ns / 1e9 >= self.source.settle_s
            if old or now - since >= max(self.source.settle_s, 0.001):
                settled.append(file)
            else:
                unsettled[file.name] = (file, since)
        self.unsettled = unsettled
        self.ready = deque(sorted(settled, key=lambda f: (f.mtime_ns, f.name)))
        self.scanned = (folder_ns, now)

    def _take(self, rows_max: int) -> list[Claimed]:
        """The next files of ``ready``, about ``rows_max`` rows of them and at least one."""
        taken: list[Claimed] = []
        rows = 0.0
        for file in self.ready:
            if len(taken) >= FILES_MAX:
                break
            if file.name in self.seen:
                continue
            now = signature(self.folder, file.name)
            if now != file:  # changed since the last look: it is looked at again, and claimed then
                self.scanned = (-1, 0.0)
                continue
            rows += self._rows(file)
            if taken and rows > rows_max:
                break
            taken.append(file)
        if not taken:
            self.ready.clear()
        return taken

    def _rows(self, file: Claimed) -> float:
        path = self.folder / file.name
        if leaves(self.folder, file.name):
            return 1
        if self.source.format == "parquet":
            return files_parquet.rows_in(path)
        if not self.bytes_per_row:
            self.bytes_per_row = files_text.bytes_per_row(path)
        return file.size / (self.bytes_per_row or 1.0)

    def _check(self, files: Iterable[Claimed], span: Span) -> None:
        """Raise SourceError unless every claimed file is what it was when it was claimed."""
        for file in files:
            now = signature(self.folder, file.name)
            if now == file:
                continue
            first = 1 if span.after is None else int(span.after["count"]) + 1
            claim = f"the claim of files {first} to {span.through['count']} has it with {file.size} bytes"
            if now is None:
                raise SourceError(
                    f"the claimed file {file.name!r} is gone",
                    detail=f"{self.folder}: {claim}",
                    hint="put it back with its modification time (cp -p), or restore an older snapshot",
                )
            raise SourceError(
                f"the file {file.name!r} was changed after it was claimed",
                detail=f"{self.folder}: {claim}, modified at {file.mtime_ns} ns; now {now.size} and {now.mtime_ns}",
                hint="put the old one back with its modification time (cp -p), and new rows into a new file",
            )


def walk(folder: Path, pattern: str, recursive: bool, seen: set[str]) -> Iterator[Claimed]:
    """The files of ``folder`` that a source may take and that are not in ``seen``."""
    waiting = [(str(folder), "")]
    while waiting:
        at, prefix = waiting.pop()
        try:
            with os.scandir(at) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    if name in seen or entry.name.startswith((".", "_")) or entry.name.endswith(TEMPORARY):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if recursive:
                            waiting.append((entry.path, name + "/"))
                    elif fnmatch.fnmatchcase(entry.name, pattern):
                        file = signature(folder, name)
                        if file is not None:
                            yield file
        except FileNotFoundError:
            if not prefix:  # a sub-folder may go while it is walked
                raise


def signature(folder: Path, name: str) -> Claimed | None:
    """What identifies a file's content; None if it is not there, or is no file. A link that leads out of
    the folder is not followed: it is its own content."""
    path = os.path.join(folder, name)
    try:
        seen = os.lstat(path)
        if stat.S_ISLNK(seen.st_mode) and not leaves(folder, name):
            seen = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
        return None
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"the file name {name!r} is not UTF-8", detail=str(folder), hint="rename the file, or narrow the pattern"
        ) from None
    return Claimed(name, seen.st_size, seen.st_mtime_ns)


def leaves(folder: Path, name: str) -> bool:
    """Whether ``name`` is a link, or a path, that leads out of ``folder``."""
    if ".." in name.split("/") or name.startswith("/"):
        return True
    if not os.path.islink(os.path.join(folder, name)) and "/" not in name:
        return False
    return not Path(os.path.realpath(os.path.join(folder, name))).is_relative_to(folder)
