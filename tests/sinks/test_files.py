"""The file sink: whole epochs, once, whatever happens at whatever step.

Fault model: the process may die, or the disk refuse, before any single step on the disk. Nothing half-
written may become visible, and delivering the same epoch again must end as if nothing had happened.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.errors import DeclarationError, SinkError
from rekindle.keeper.records import EpochNumber
from rekindle.sinks import Files
from rekindle.sinks.disk import Disk
from rekindle.sinks.files import OWNER, FilesWriter
from tests.sinks.deliveries import delivery, words

FORMATS = ("json", "csv", "parquet")


class Killed(BaseException):
    """The process dies here."""


@dataclass
class FaultyDisk(Disk):
    """Raises ``fault`` before step number ``at`` (or half-way into it, where it writes)."""

    at: int
    fault: BaseException
    steps: list[str] = field(default_factory=list)
    hit: bool = False

    def _step(self, name: str) -> bool:
        self.steps.append(name)
        if len(self.steps) != self.at:
            return False
        self.hit = True
        return True

    def make_folder(self, folder: Path) -> None:
        if self._step("make_folder"):
            raise self.fault
        super().make_folder(folder)

    def write(self, file: Path, chunks: Iterable[bytes]) -> None:
        if self._step("write"):
            file.write_bytes(b"".join(chunks)[:7])
            raise self.fault
        super().write(file, chunks)

    def copy(self, source: Path, file: Path) -> None:
        if self._step("copy"):
            file.write_bytes(source.read_bytes()[:7])
            raise self.fault
        super().copy(source, file)

    def sync(self, file: Path) -> None:
        if self._step("sync"):
            raise self.fault
        super().sync(file)

    def sync_folder(self, folder: Path) -> None:
        if self._step("sync_folder"):
            raise self.fault
        super().sync_folder(folder)

    def rename(self, old: Path, new: Path) -> None:
        if self._step("rename"):
            raise self.fault
        super().rename(old, new)

    def remove_tree(self, folder: Path) -> None:
        if not isinstance(self.fault, Killed) or not self.hit:  # the dead remove nothing
            super().remove_tree(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def visible(folder: Path) -> list[str]:
    return sorted(n for n in os.listdir(folder) if not n.startswith("."))


@pytest.mark.parametrize("format", FORMATS)
def test_epochs_are_dense_folders_and_a_repeat_changes_nothing(tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    writer = Files(out, format=format).open()
    epochs = [delivery(tmp_path / "s", words(e, 0 if e == 2 else 5), e, segments=2) for e in (1, 2, 3)]
    for epoch in epochs:
        writer.deliver(epoch)
    before = contents(out)
    stamps = {n: (out / n).stat().st_mtime_ns for n in before}
    assert visible(out) == [f"epoch={e:012d}" for e in (1, 2, 3)]
    for epoch in epochs:
        writer.deliver(epoch)
        Files(out, format=format).open().deliver(epoch)
    assert contents(out) == before
    assert {n: (out / n).stat().st_mtime_ns for n in before} == stamps  # recognised, not rewritten


@pytest.mark.parametrize("segments", [0, 1])
def test_an_epoch_without_rows_appears_with_its_schema(tmp_path: Path, segments: int) -> None:
    for format in FORMATS:
        out = tmp_path / format
        Files(out, format=format).open().deliver(delivery(tmp_path / "s", words(7, 0), 7, segments))
        [part] = (out / "epoch=000000000007").iterdir()
        assert part.name == f"part-00000.{format}"
        if format == "parquet":
            assert pq.read_schema(part) == words(7, 0).schema
        else:
            assert part.read_bytes() == {"json": b"", "csv": b'"word","n"\n'}[format]


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_epoch_gives_the_same_bytes(tmp_path: Path, format: str) -> None:
    for out in ("a", "b"):
        Files(tmp_path / out, format=format).open().deliver(delivery(tmp_path / out / "s", words(1, 20_000), 1, 3))
    names = [n for n in contents(tmp_path / "a") if n.startswith("epoch")]
    assert len(names) == (3 if format == "parquet" else 1)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_parquet_parts_are_the_sinks_own_copies(tmp_path: Path) -> None:
    epoch = delivery(tmp_path / "s", words(1, 10), 1, segments=2)
    Files(tmp_path / "out", format="parquet").open().deliver(epoch)
    parts = sorted((tmp_path / "out" / "epoch=000000000001").iterdir())
    assert [p.read_bytes() for p in parts] == [s.read_bytes() for s in epoch.segments]
    assert all(p.stat().st_nlink == 1 for p in parts)


def entries(folder: Path) -> list[str]:
    """All that is in the folder but the note of whose it is."""
    return sorted(n for n in os.listdir(folder) if n != OWNER)


def steps_of(tmp_path: Path, format: str) -> list[str]:
    disk = FaultyDisk(at=-1, fault=Killed())
    FilesWriter(tmp_path / "probe", format, disk).deliver(delivery(tmp_path / "s", words(1), 1, 2))
    return disk.steps


def test_everything_is_durable_before_it_is_seen_and_a_repeat_writes_nothing(tmp_path: Path) -> None:
    assert steps_of(tmp_path, "json") == ["make_folder", "write", "sync", "sync_folder", "rename", "sync_folder"]
    copied = ["copy", "sync", "copy", "sync"]
    assert steps_of(tmp_path / "p", "parquet") == ["make_folder", *copied, "sync_folder", "rename", "sync_folder"]
    assert steps_of(tmp_path, "json") == ["sync_folder"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_death_at_any_step_shows_nothing_and_the_retry_completes(tmp_path: Path, format: str) -> None:
    steps = steps_of(tmp_path, format)
    assert {"make_folder", "sync", "sync_folder", "rename"} < set(steps)
    wanted = contents(tmp_path / "probe")
    epoch = delivery(tmp_path / "s", words(1), 1, 2)
    for at, step in enumerate(steps, start=1):
        out = tmp_path / f"out{at}"
        disk = FaultyDisk(at=at, fault=Killed())
        with pytest.raises(Killed):
            FilesWriter(out, format, disk).deliver(epoch)
        assert disk.hit, step
        renamed = "rename" in steps[: at - 1]
        assert visible(out) == (["epoch=000000000001"] if renamed else []), step
        assert bool([n for n in entries(out) if n.startswith(".")]) == (step != "make_folder" and not renamed)
        FilesWriter(out, format).deliver(epoch)
        assert contents(out) == wanted, step
        assert entries(out) == ["epoch=000000000001"], step


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "space"), (errno.EACCES, "access"), (errno.EROFS, "read-only")]
)
def test_a_refusing_disk_is_a_sink_error_and_leaves_nothing(
    tmp_path: Path, format: str, number: int, hint: str
) -> None:
    epoch = delivery(tmp_path / "s", words(1), 1, 2)
    steps = steps_of(tmp_path, format)
    for at in range(1, len(steps) + 1):
        out = tmp_path / f"out{at}"
        disk = FaultyDisk(at=at, fault=OSError(number, os.strerror(number)))
        writer = FilesWriter(out, format, disk)
        with pytest.raises(SinkError) as caught:
            writer.deliver(epoch)
        assert disk.hit
        assert hint in caught.value.hint
        assert entries(out) == (["epoch=000000000001"] if "rename" in steps[: at - 1] else [])
        writer.deliver(epoch)  # the same writer goes on when the disk does
        assert contents(out) == contents(tmp_path / "probe")


@dataclass
class RacingDisk(Disk):
    """Another incarnation delivers between our last write and our rename."""

    other: Callable[[], None]
    raced: bool = False

    def rename(self, old: Path, new: Path) -> None:
        self.other()
        self.raced = new.exists()
        super().rename(old, new)


@pytest.mark.parametrize("format", FORMATS)
def test_a_zombie_and_its_successor_make_no_mix(tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    theirs, ours = (delivery(tmp_path / s, words(1), 1, n) for s, n in (("t", 1), ("o", 2)))
    disk = RacingDisk(other=lambda: FilesWriter(out, format).deliver(theirs))
    FilesWriter(out, format, disk).deliver(ours)
    assert disk.raced
    FilesWriter(tmp_path / "alone", format).deliver(theirs)
    assert contents(out) == contents(tmp_path / "alone")
    assert entries(out) == ["epoch=000000000001"]


@dataclass
class OpeningDisk(Disk):
    """Another writer opens the folder while ours is half-way."""

    folder: Path
    kept: list[str] = field(default_factory=list)

    def sync(self, file: Path) -> None:
        FilesWriter(self.folder, "json")
        self.kept = os.listdir(self.folder)
        super().sync(file)


def test_opening_removes_what_the_dead_left_and_leaves_the_living_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    left = out / ".epoch=000000000009.1.0.tmp"
    left.mkdir(parents=True)
    (left / "part-00000.json").write_bytes(b"half")
    (out / ".mine").mkdir()
    (out / "notes.txt").write_text("the user's own")
    disk = OpeningDisk(out)
    writer = FilesWriter(out, "json", disk)
    assert sorted(os.listdir(out)) == [".mine", "notes.txt"]
    writer.deliver(delivery(tmp_path / "s", words(1), 1))
    assert [n for n in disk.kept if n.endswith(".tmp")]  # the second writer saw ours, and left it
    assert entries(out) == [".mine", "epoch=000000000001", "notes.txt"]


def test_an_empty_folder_in_the_epochs_place_is_not_a_delivery(tmp_path: Path) -> None:
    (tmp_path / "out" / "epoch=000000000001").mkdir(parents=True)
    Files(tmp_path / "out").open().deliver(delivery(tmp_path / "s", words(1, 2), 1))
    assert len((tmp_path / "out" / "epoch=000000000001" / "part-00000.json").read_bytes().splitlines()) == 2


def test_what_is_in_the_way_is_a_sink_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SinkError, match="cannot be used"):
        Files(tmp_path / "file").open()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "epoch=000000000001").write_text("x")
    with pytest.raises(SinkError, match="cannot be written"):
        Files(tmp_path / "out").open().deliver(delivery(tmp_path / "s", words(1), 1))
    with pytest.raises(DeclarationError, match="one of json"):
        Files("out", format="xml")
    with pytest.raises(DeclarationError, match="not a folder"):
        Files("s3://bucket/out")


@pytest.mark.parametrize("format", ["json", "csv"])
def test_a_column_that_cannot_be_rendered_leaves_nothing(tmp_path: Path, format: str) -> None:
    bad = {
        "json": pa.table({"d": pa.array([1], pa.duration("us"))}),
        "csv": pa.table({"d": [[1, 2]]}),
    }[format]
    writer = Files(tmp_path / "out", format=format).open()
    with pytest.raises(SinkError, match="column 'd'"):
        writer.deliver(delivery(tmp_path / "s", bad, 1))
    broken = pa.array([b"\xff"], pa.binary()).view(pa.string())
    epoch = delivery(tmp_path / "s", pa.table({"s": broken}), 1)
    if format == "json":
        with pytest.raises(SinkError, match="cannot be rendered"):
            writer.deliver(epoch)
        assert entries(tmp_path / "out") == []


def test_json_lines_can_be_read_by_anything(tmp_path: Path) -> None:
    Files(tmp_path / "out").open().deliver(delivery(tmp_path / "s", words(1, 20_000), 1, 3))
    lines = (tmp_path / "out" / "epoch=000000000001" / "part-00000.json").read_text().splitlines()
    assert [json.loads(line) for line in lines] == words(1, 20_000).to_pylist()


@pytest.mark.parametrize("other", [{"home": "home2"}, {"sink": "more_sink"}, {"stream": "prices"}])
def test_a_folder_of_another_sink_is_refused_and_left_as_it_is(tmp_path: Path, other: dict[str, Any]) -> None:
    out = tmp_path / "out"
    FilesWriter(out, "json").deliver(delivery(tmp_path / "s", words(1), 1))
    before = contents(out)
    theirs = replace(delivery(tmp_path / "t", words(2), 1), **other)
    for epoch in (theirs, replace(theirs, epoch=EpochNumber(2))):
        with pytest.raises(SinkError, match="not its own"):
            FilesWriter(out, "json").deliver(epoch)
    assert contents(out) == before


def test_epochs_that_nobody_signed_are_nobodys(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "epoch=000000000001").mkdir(parents=True)
    (out / "epoch=000000000001" / "part-00000.json").write_text("{}\n")
    with pytest.raises(SinkError, match="not its own"):
        FilesWriter(out, "json").deliver(delivery(tmp_path / "s", words(1), 1))
