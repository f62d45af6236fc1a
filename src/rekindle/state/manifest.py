"""The manifest of a safe point: every file of its checkpoint, in which object it is, and which stores have that.

An object is an uncompressed tar of one part's new files. Its bytes follow from its entries alone, so where each
file starts is known before it is written, and any tar program can open it.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import xxhash

from rekindle.errors import BrokenInvariant, StateDamaged
from rekindle.keeper.records import EpochNumber
from rekindle.state.layers import Entry

MANIFEST_VERSION = 1
_BLOCK = 512
_END = bytes(2 * _BLOCK)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Object:
    """A tar in the stores named: its size, and how many bytes of files it was packed with."""

    name: str
    bytes: int
    payload: int
    stores: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file is: the object, and the offset of the file's content in it."""

    object: str
    offset: int


@dataclass(frozen=True, slots=True)
class Manifest:
    fragment: str
    epoch: EpochNumber
    batch: int
    files: Mapping[Entry, Place]
    objects: Mapping[str, Object]

    def __post_init__(self) -> None:
        unknown = {place.object for place in self.files.values()} ^ self.objects.keys()
        if unknown:
            raise BrokenInvariant(f"the manifest of {self.fragment} {self.epoch} names other objects than its files do")

    @property
    def size(self) -> int:
        return sum(entry.bytes for entry in self.files)

    def to_bytes(self) -> bytes:
        numbers = {name: number for number, name in enumerate(sorted(self.objects))}
        objects = [self.objects[name] for name in sorted(self.objects)]
        document = {
            "version": MANIFEST_VERSION,
            "fragment": self.fragment,
            "epoch": self.epoch,
            "batch": self.batch,
            "objects": [[o.name, o.bytes, o.payload, list(o.stores)] for o in objects],
            "files": [
                [entry.path, entry.bytes, entry.checksum, numbers[place.object], place.offset]
                for entry, place in sorted(self.files.items())
            ],
        }
        return orjson.dumps(document)

    @staticmethod
    def from_bytes(content: bytes) -> Manifest:
        document: dict[str, Any] = orjson.loads(content)
        if document["version"] != MANIFEST_VERSION:
            raise StateDamaged(
                f"the manifest has version {document['version']}, this Rekindle reads {MANIFEST_VERSION}",
                hint="upgrade: pip install --upgrade rekindle",
            )
        objects = [Object(name, size, payload, tuple(stores)) for name, size, payload, stores in document["objects"]]
        files = {
            Entry(_inside(path), size, digest): Place(objects[number].name, offset)
            for path, size, digest, number, offset in document["files"]
        }
        return Manifest(
            document["fragment"],
            EpochNumber(document["epoch"]),
            document["batch"],
            files,
            {item.name: item for item in objects},
        )


def digest_of(content: bytes) -> str:
    return xxhash.xxh3_64(content).hexdigest()


def packed(entries: Sequence[Entry]) -> tuple[dict[Entry, int], int]:
    """Where each file starts in the tar of these entries, and how long the tar is."""
    offsets, end = {}, 0
    for entry in entries:
        offsets[entry] = end + len(_header(entry))
        end = offsets[entry] + entry.bytes + _padding(entry)
    return offsets, end + len(_END)


def pack(folder: Path, entries: Sequence[Entry]) -> Iterator[bytes]:
    """The tar, in chunks. Raises StateDamaged at a file that is not what its entry says."""
    for entry in entries:
        yield _header(entry)
        digest, left = xxhash.xxh3_64(), entry.bytes
        with open(folder / entry.path, "rb") as file:
            while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                left -= len(chunk)
                yield chunk
        if left or digest.hexdigest() != entry.checksum:
            raise StateDamaged(f"{entry.path} changed while it was packed", detail=str(folder))
        yield bytes(_padding(entry))
    yield _END


def _header(entry: Entry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.size = entry.bytes
    return info.tobuf(tarfile.GNU_FORMAT)


def _padding(entry: Entry) -> int:
    return -entry.bytes % _BLOCK


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise StateDamaged(f"the manifest names the path {path!r}, which leads out of a checkpoint")
    return path
