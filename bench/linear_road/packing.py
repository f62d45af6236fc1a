"""Rows packed for a stateful operator: all rows of a part in one binary value.

Spark hands rows to a stateful Python operator one by one, some microseconds each. A stateless step before it packs the
rows of each part instead (int32, column after column), and the operator unpacks them into one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

Ints = npt.NDArray[np.int32]

SCHEMA = "label int, part int, rows binary"
ARROW = pa.schema([("label", pa.int32()), ("part", pa.int32()), ("rows", pa.binary())])
SEED = 42
WORD = 0xFFFFFFFF


def packed(frame: DataFrame, names: Sequence[str], parts: int, part_of: Callable[[Ints, int], Ints]) -> DataFrame:
    """``frame`` by parts: ``part_of`` gives each row's from all rows (in the order of ``names``) and the number of
    parts. ``label`` is what to group by: each part's leads to a partition of its own."""
    return frame.select(*names).mapInArrow(partial(_packed, labels=labels(parts), part_of=part_of), SCHEMA)


def unpacked(rows: Iterable[bytes], width: int) -> Ints:
    """One array, a row for each name."""
    return np.concatenate([np.frombuffer(value, np.int32).reshape(width, -1) for value in rows], axis=1)


def labels(parts: int) -> list[int]:
    """The smallest number for each part that Spark's hash puts into that one of so many partitions."""
    found: dict[int, int] = {}
    candidate = 0
    while len(found) < parts:
        found.setdefault(spark_hash(candidate) % parts, candidate)
        candidate += 1
    return [found[part] for part in range(parts)]


def spark_hash(value: int) -> int:
    """Spark's ``hash`` of an int that is not negative (Murmur3, 32 bits), as a signed number."""
    mixed = _rotated(value * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
    state = (_rotated(SEED ^ mixed, 13) * 5 + 0xE6546B64 & WORD) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        state = (state ^ (state >> shift)) * factor & WORD
    return state - (1 << 32) if state >> 31 else state


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & WORD


def _packed(
    batches: Iterable[pa.RecordBatch], labels: list[int], part_of: Callable[[Ints, int], Ints]
) -> Iterator[pa.RecordBatch]:
    found = [np.stack([column.to_numpy() for column in batch.columns]) for batch in batches if batch.num_rows]
    if not found:
        return
    rows = np.concatenate(found, axis=1).astype(np.int32)
    parts = part_of(rows, len(labels))
    for part in np.unique(parts).tolist():
        columns = [[labels[part]], [part], [np.ascontiguousarray(rows[:, parts == part]).tobytes()]]
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, ARROW, strict=True)], schema=ARROW)
