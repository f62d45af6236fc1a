"""Reading published epochs from their segments, and proving that a segment is what was published.

No Spark here: whoever can read the home can read a stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from rekindle.errors import SegmentDamaged
from rekindle.home import Home
from rekindle.keeper.records import Epoch, Segment

_CHUNK_BYTES = 1 << 20


def checksum(path: Path) -> str:
    """XXH3-64 of a file's content, in hex."""
    digest = xxhash.xxh3_64()
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(min(_CHUNK_BYTES, os.fstat(file.fileno()).st_size + 1))  # most files are small
        view = memoryview(buffer)
        while count := file.readinto(buffer):
            digest.update(view[:count])
    return digest.hexdigest()


def locate(home: Home, segment: Segment, *, stream: str, epoch: int) -> Path:
    """The absolute path of a segment that is there and has the size of its record; else SegmentDamaged."""
    path = home.inside(segment.path)
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        raise _damaged(stream, epoch, path, "the file is missing") from None
    except OSError as error:
        raise _damaged(stream, epoch, path, f"it cannot be read: {error.strerror}") from error
    if size != segment.bytes:
        raise _damaged(stream, epoch, path, f"it has {size} bytes, published were {segment.bytes}")
    return path


def verify(home: Home, segment: Segment, *, stream: str, epoch: int) -> Path:
    """The absolute path of a segment whose size and content are those of its record; else SegmentDamaged."""
    path = locate(home, segment, stream=stream, epoch=epoch)
    try:
        found = checksum(path)
    except OSError as error:
        raise _damaged(stream, epoch, path, f"it cannot be read: {error.strerror}") from error
    if found != segment.checksum:
        raise _damaged(stream, epoch, path, f"its checksum is {found}, published was {segment.checksum}")
    return path


def read_batches(home: Home, epochs: Iterable[Epoch]) -> Iterator[pa.RecordBatch]:
    """The rows of epochs in their canonical order: epoch, segment, index. Every segment is verified first."""
    for epoch in epochs:
        for segment in epoch.output.segments:
            path = verify(home, segment, stream=epoch.stream, epoch=epoch.epoch)
            rows = 0
            try:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches():
                        rows += batch.num_rows
                        yield batch
            except (OSError, pa.ArrowException) as error:
                raise _damaged(epoch.stream, epoch.epoch, path, f"it cannot be read as Parquet: {error}") from error
            if rows != segment.rows:
                raise _damaged(epoch.stream, epoch.epoch, path, f"it has {rows} rows, published were {segment.rows}")


def read_table(home: Home, epochs: Iterable[Epoch]) -> pa.Table:
    """The rows of epochs as one table, in their canonical order. A table without columns if there is no segment."""
    batches = list(read_batches(home, epochs))
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _damaged(stream: str, epoch: int, path: Path, what: str) -> SegmentDamaged:
    return SegmentDamaged(
        f"a segment of epoch {epoch} of stream {stream!r} is damaged: {what}",
        detail=str(path),
        hint="put the file back from a copy; what was published is never written anew",
    )
