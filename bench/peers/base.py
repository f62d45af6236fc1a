"""What every peer of a benchmark is: a process that reads a folder of input and shows its output in another.

A peer runs on given cores, in a folder of its own. Everything that it starts bears a mark in its environment, by which
it is found again to be measured, killed and ended. A peer that ends by itself, or does not get where it should, is a
PeerFailed.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from bench._ending import kill, uninterrupted
from bench._pauses import Output

ROOT = Path(__file__).resolve().parents[2]
MARK = "BENCH_MARK"
STORY_LINES = 8


class PeerFailed(Exception):
    """What a peer did not do, with what it said."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer runs, and how much it may take at a time.

    ``run`` is a folder of its own, which it makes; its input is what appears in ``source``. A batch takes in at most
    ``files_max`` files of each input, and ``rows_max`` rows, whichever the peer knows."""

    run: Path
    source: Path
    cores: int
    files_max: int = 1000
    rows_max: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Shown:
    """Files that became visible at the sink together. ``kept`` are links to them, which stay whatever becomes of the
    files. A name that is shown again replaces what it was."""

    name: str
    at_s: float
    kept: tuple[Path, ...]
    rows: int


@dataclass(slots=True)
class Sight:
    """All that was seen of an output folder, in order, and what is in force of it."""

    all: list[Shown] = field(default_factory=list)
    newest: dict[str, Shown] = field(default_factory=dict)

    def add(self, shown: Shown) -> None:
        self.all.append(shown)
        self.newest[shown.name] = shown

    def outputs(self) -> list[Output]:
        """When there was something new: a name that is shown again is nothing new."""
        first: dict[str, Shown] = {}
        for shown in self.all:
            first.setdefault(shown.name, shown)
        return [Output(shown.at_s, shown.rows) for shown in first.values()]


class Peer(ABC):
    """Used as a context: started on entry, ended on exit, in bounded time and whatever happened in between."""

    quiet_s = 2.0
    """Nothing new for so long, and it has probably done all there is to do."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.run = place.run
        self.output = place.run / "output"
        self.sight = Sight()
        self.mark = uuid.uuid4().hex
        self._kept = 0

    def __enter__(self) -> Peer:
        self.run.mkdir()
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        with uninterrupted():
            self.close()
            kill(marked(self.mark))

    def look(self) -> Sight:
        """Take in what became visible since the last look."""
        for name, at_s, parts in self._appeared():
            kept = self._keep(parts)
            if kept is not None:
                self.sight.add(Shown(name, at_s, kept, sum(self._rows(path) for path in kept)))
        return self.sight

    def outputs(self) -> list[Output]:
        """All that became visible at the sink so far."""
        return self.look().outputs()

    def results(self) -> Iterator[pa.Table]:
        """The content of every output that is there, in the order in which they were shown."""
        for shown in sorted(self.look().newest.values(), key=lambda shown: (shown.at_s, shown.name)):
            if self._there(shown.name):
                for path in shown.kept:
                    yield self.read(path)

    def read(self, path: Path) -> pa.Table:
        """One file of the output."""
        with pq.ParquetFile(path) as file:
            return file.read()

    def gone(self) -> list[str]:
        """Names that were shown and are not there any more."""
        return [name for name in self.look().newest if not self._there(name)]

    def has_begun(self) -> bool:
        """Whether it reads its input."""
        return bool(self.look().all)

    def kill(self, victims: Sequence[psutil.Process] | None = None) -> float:
        """SIGKILL ``victims``, or else the process that does the work and all that it started; returns when."""
        if victims is None:
            victims = self.aim()
        at_s = time.time()
        kill(victims)
        return at_s

    def lose_disk(self) -> None:
        """Remove what the killed process kept on its own disk, as if its machine were gone. Raises PeerFailed where
        there is no telling what that is."""
        raise PeerFailed(f"{self.name} cannot lose its disk")

    def processes(self) -> list[psutil.Process]:
        """All of it that runs now."""
        return marked(self.mark)

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """Raise PeerFailed if it ended without being asked to."""

    @abstractmethod
    def redundant(self) -> bool:
        """Whether all that it should have runs and is ready, and nothing that was killed counts any more."""

    def has_taken(self, files: int) -> bool:
        """Whether so many files of input are in the output, where that can be told; True where it cannot."""
        return True

    def events(self) -> list[tuple[float, str, str]]:
        """What is on record of what happened: when, what, to whom."""
        return []

    @abstractmethod
    def recovery_bytes(self) -> Mapping[str, int]:
        """What lies on disk for the sake of recovery, by kind."""

    @abstractmethod
    def _appeared(self) -> Iterable[tuple[str, float, list[Path]]]:
        """Outputs not yet seen: the name, when it became visible, its files."""

    @abstractmethod
    def _there(self, name: str) -> bool: ...

    @abstractmethod
    def aim(self) -> list[psutil.Process]:
        """The process that does the work now, and all that it started. From here on it may end."""

    def _environment(self) -> dict[str, str]:
        """Of the processes that it starts; subclasses add to it."""
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), MARK: self.mark}

    def _rows(self, path: Path) -> int:
        return int(pq.read_metadata(path).num_rows)

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        """A process in a session of its own, on the peer's cores."""
        with open(self.run / "console", "ab") as console, on_cores(self.place.cores):
            return subprocess.Popen(
                command,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def story(self) -> str:
        """What it said last, for whoever reads of a failure."""
        console = self.run / "console"
        return "\n".join(console.read_text(errors="replace").splitlines()[-STORY_LINES:]) if console.exists() else ""

    def _keep(self, parts: list[Path]) -> tuple[Path, ...] | None:
        """Links to the files, or None if they are gone already: then nobody could have read them either."""
        folder = self.run / "kept"
        folder.mkdir(exist_ok=True)
        self._kept += 1
        kept = []
        for part in parts:
            link = folder / f"{self._kept:06d}-{part.name}"
            try:
                os.link(part, link)
            except FileNotFoundError:
                return None
            kept.append(link)
        return tuple(kept)


def marked(mark: str) -> list[psutil.Process]:
    """The processes that bear a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for pid in psutil.pids():
        try:
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(psutil.Process(pid))
        except (OSError, psutil.NoSuchProcess):  # it has ended, or is somebody else's
            continue
    return found


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Processes started inside, from this thread, get the first ``count`` of our cores."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(ours)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def folder_bytes(folder: Path) -> int:
    """What the files below a folder hold; one that has several names counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(path, name))
            except FileNotFoundError:  # removed meanwhile
                continue
            sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())
