"""The history, loaded into a file in which a day's expenditure is two bytes at a known place: expressway and toll."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.linear_road.world import DAYS

EXPRESSWAYS_MAX = 255


def load(history: Path, store: Path) -> None:
    """Make the store from the history file. Raises ValueError for what does not fit two bytes."""
    hidden = store.with_name(f".{store.name}")
    with pq.ParquetFile(history) as file:
        vids = max(file.metadata.row_group(i).column(0).statistics.max for i in range(file.num_row_groups))
        table = np.memmap(hidden, dtype=np.uint8, mode="w+", shape=(vids + 1, DAYS + 1, 2))
        for batch in file.iter_batches(batch_size=1_000_000):
            vid, day, xway, toll = (batch[name].to_numpy() for name in ("vid", "day", "xway", "toll"))
            if xway.max() >= EXPRESSWAYS_MAX or toll.max() > 255 or day.max() > DAYS:
                raise ValueError(f"{history}: an expressway, a toll or a day is larger than the store takes")
            table[vid, day, 0], table[vid, day, 1] = xway + 1, toll
        table.flush()
    os.rename(hidden, store)


def looked_up(batches: Iterable[pa.RecordBatch], store: str) -> Iterator[pa.RecordBatch]:
    """For rows time, vid, qid, xway, day: time, vid, qid, bal. What the history does not have is 0."""
    for batch in batches:
        if batch.num_rows:
            time, vid, qid, xway, day = (column.to_numpy() for column in batch.columns)
            table = _opened(store)
            known = vid < len(table)
            used, toll = table[np.where(known, vid, 0), day].T.astype(np.int32)
            bal = np.where(known & (used == xway + 1), toll, 0)
            columns = [pa.array(c.astype(np.int32)) for c in (time, vid, qid, bal)]
            yield pa.record_batch(columns, names=["time", "vid", "qid", "bal"])


@cache
def _opened(store: str) -> npt.NDArray[np.uint8]:
    return np.memmap(store, dtype=np.uint8, mode="r").reshape(-1, DAYS + 1, 2)
