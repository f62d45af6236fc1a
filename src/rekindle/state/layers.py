"""Layers: what a checkpoint needs to stand at its epoch, and which of these files are new.

Of the files that a fork links, fewer are needed to go on: the last batch in the logs (and the one before, which
Spark asks for), the file sources' logs from their last compaction, and for each state store the newest snapshot,
what it refers to, and the changelogs after it. Earlier layers are merged in that snapshot.

Files are told apart by path, size and checksum, never by path alone: a batch that is computed again after a crash
writes other bytes under the same name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BrokenInvariant, StateDamaged
from rekindle.keeper.records import EpochNumber
from rekindle.state.checkpoint import BASE, Standing, base_of, standing
from rekindle.streams.segments import checksum

LOGS = "logs"
CAPTURE_TRIES = 5
_VERSION = re.compile(r"(\d+)(_[^.]*)?\.(changelog|delta|zip|snapshot)$")
_SNAPSHOTS = ("zip", "snapshot")
_PARTITION = re.compile(r"state/(\d+)/(\d+)/")
_SHARED = {"sstFiles": ("SSTs", "dfsSstFileName"), "logFiles": ("logs", "dfsLogFileName")}


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One immutable file of a checkpoint. ``path`` is relative to it, ``checksum`` is XXH3-64 in hex."""

    path: str
    bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Layer:
    """``needed`` is everything that the checkpoint needs at ``epoch``, ``new`` the part of it that was not known."""

    epoch: EpochNumber
    batch: int
    needed: tuple[Entry, ...]
    new: tuple[Entry, ...]

    def parts(self) -> dict[str, tuple[Entry, ...]]:
        """The new files by part: the logs, and each partition of the state. Each part may go to another store."""
        found: dict[str, list[Entry]] = {}
        for entry in self.new:
            found.setdefault(part_of(entry.path), []).append(entry)
        return {part: tuple(found[part]) for part in sorted(found, key=_part_order)}


def part_of(path: str) -> str:
    """``logs``, or ``state-<operator>-<partition>``."""
    match = _PARTITION.match(path)
    return f"state-{match.group(1)}-{match.group(2)}" if match else LOGS


class Checksums:
    """Checksums of files, computed once for each file as it was last changed, whatever links lead to it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int], str] = {}

    def entries(self, folder: Path, paths: Iterable[str]) -> tuple[Entry, ...]:
        """Entries of exactly these files; those of earlier calls are forgotten."""
        known: dict[tuple[str, int, int, int], str] = {}
        found = []
        for path in sorted(paths):
            stat = os.stat(folder / path)
            key = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            known[key] = self._known.get(key) or checksum(folder / path)
            found.append(Entry(path, stat.st_size, known[key]))
        self._known = known
        return tuple(found)


def layer_of(
    checkpoint: Path, epoch: EpochNumber, known: Mapping[str, Entry], checksums: Checksums | None = None
) -> Layer:
    """The layer of a checkpoint that stands at ``epoch`` and that nobody writes to: a captured one.

    ``known`` are the files that are kept elsewhere already, by path.
    """
    stand = standing(checkpoint)
    if stand.epoch != epoch:
        raise BrokenInvariant(f"the checkpoint stands at epoch {stand.epoch}, not at {epoch}", detail=str(checkpoint))
    entries = (checksums or Checksums()).entries(checkpoint, needed(checkpoint, stand))
    new = tuple(entry for entry in entries if known.get(entry.path) != entry)
    return Layer(stand.epoch, stand.batch, entries, new)


def capture(origin: Path, target: Path) -> Standing:
    """Link what ``origin`` needs where it stands now to ``target``, while its query runs.

    Spark may remove old files meanwhile; then ``origin`` stands further already, and is captured there. Raises
    StateDamaged if files are missing that must be there.
    """
    tries = CAPTURE_TRIES
    while True:
        tries -= 1
        try:
            stand = standing(origin)
            for path in needed(origin, stand):
                _link(origin / path, target / path)
            # A snapshot may have been replaced between its reading and its linking: what was linked must do alone.
            if standing(target) == stand and needed(target, stand):
                return stand
        except StateDamaged:
            if tries == 0:
                raise
        except FileNotFoundError as error:
            if tries == 0:
                raise StateDamaged(f"the checkpoint lacks {error.filename}", detail=str(origin)) from error
        if tries == 0:
            raise StateDamaged("the checkpoint changes while it is captured", detail=str(origin))
        shutil.rmtree(target, ignore_errors=True)


def needed(checkpoint: Path, stand: Standing) -> list[str]:
    """The paths of what the checkpoint needs at ``stand``. Raises StateDamaged if one of them is missing."""
    if stand.batch < 0:
        return [BASE]
    metadata = _there(checkpoint, "metadata")
    return [BASE, metadata, *_logs(checkpoint, stand), *_source_logs(checkpoint, stand), *_state(checkpoint, stand)]


def partitions_of(checkpoint: Path, batch: int) -> int:
    """Over how many partitions the state of a batch is spread."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return int(json.loads(lines[1])["conf"]["spark.sql.shuffle.partitions"])


def _logs(checkpoint: Path, stand: Standing) -> Iterator[str]:
    for log in ("offsets", "commits"):
        if stand.batch > 0:
            yield _there(checkpoint, f"{log}/{stand.batch - 1}")
        yield _there(checkpoint, f"{log}/{stand.batch}")


def _source_logs(checkpoint: Path, stand: Standing) -> Iterator[str]:
    last = stand.epoch - base_of(checkpoint) - 1
    for source in sorted(os.listdir(checkpoint / "sources")):
        for number in range(last, -1, -1):
            compact = f"sources/{source}/{number}.compact"
            if (checkpoint / compact).exists():
                yield compact
                break
            yield _there(checkpoint, f"sources/{source}/{number}")


def _state(checkpoint: Path, stand: Standing) -> Iterator[str]:
    partitions = partitions_of(checkpoint, stand.batch)
    root = checkpoint / "state"
    for operator in sorted(os.listdir(root)) if root.exists() else ():
        for part in sorted(os.listdir(root / operator)):
            if not part.isdecimal():
                yield from _everything(checkpoint, f"state/{operator}/{part}")
            elif int(part) < partitions:
                yield from _stores(checkpoint, f"state/{operator}/{part}", stand.batch + 1)


def _stores(checkpoint: Path, folder: str, version: int) -> Iterator[str]:
    """The files of the state store in a folder, and of the named stores below it."""
    names = sorted(name for name in os.listdir(checkpoint / folder) if not name.startswith("."))
    files = [match for match in map(_VERSION.match, names) if match]
    if files:
        yield from _store(checkpoint, folder, [m for m in files if int(m.group(1)) <= version], version)
    for name in names:
        path = f"{folder}/{name}"
        if not (checkpoint / path).is_dir() or (files and name in ("SSTs", "logs")):
            continue
        yield from _everything(checkpoint, path) if name.startswith("_") else _stores(checkpoint, path, version)


def _store(checkpoint: Path, folder: str, files: list[re.Match[str]], version: int) -> Iterator[str]:
    if any(match.group(2) for match in files):
        # Versions with ids of their own: which of them count is known to Spark alone, so all are kept.
        yield from (f"{folder}/{match.group(0)}" for match in files)
        for shared, _ in _SHARED.values():
            if (checkpoint / folder / shared).exists():
                yield from _everything(checkpoint, f"{folder}/{shared}")
        return
    snapshot = max((m for m in files if m.group(3) in _SNAPSHOTS), key=lambda m: int(m.group(1)), default=None)
    oldest = 0
    if snapshot is not None:
        oldest = int(snapshot.group(1))
        yield f"{folder}/{snapshot.group(0)}"
        if snapshot.group(3) == "zip":
            for shared in _referred(checkpoint / folder / snapshot.group(0)):
                yield _there(checkpoint, f"{folder}/{shared}")
    changes = {int(m.group(1)): m.group(0) for m in files if m.group(3) not in _SNAPSHOTS}
    for number in range(oldest + 1, version + 1):
        yield f"{folder}/{changes[number]}" if number in changes else _there(checkpoint, f"{folder}/{number}.changelog")


def _referred(snapshot: Path) -> Iterator[str]:
    """The files that RocksDB's snapshots share, as one of them names them."""
    with zipfile.ZipFile(snapshot) as archive:
        _, description = archive.read("metadata").decode().split("\n", 1)
    described = json.loads(description)
    for kind, (shared, name) in _SHARED.items():
        for file in described.get(kind) or ():
            yield f"{shared}/{file[name]}"


def _everything(checkpoint: Path, folder: str) -> Iterator[str]:
    for found, _, names in os.walk(checkpoint / folder):
        for name in sorted(names):
            if not name.startswith("."):
                yield (Path(found) / name).relative_to(checkpoint).as_posix()


def _there(checkpoint: Path, path: str) -> str:
    if not (checkpoint / path).exists():
        raise StateDamaged(f"the checkpoint lacks {path}", detail=str(checkpoint))
    return path


def _link(origin: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(origin, target)
    except FileNotFoundError:
        raise
    except OSError:  # another file system, or one without links
        shutil.copyfile(origin, target)


def _part_order(part: str) -> tuple[int, ...]:
    return tuple(int(number) for number in part.split("-")[1:])
