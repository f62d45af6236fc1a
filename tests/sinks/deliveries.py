"""Epochs to deliver, for tests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.keeper.records import EpochNumber
from rekindle.sinks.base import Delivery


def delivery(folder: Path, table: pa.Table, epoch: int = 1, segments: int = 1, home: str = "home1") -> Delivery:
    """``table`` cut into segments on disk, as a node hands it to a sink."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    size = -(-table.num_rows // segments) if segments else 0
    for index in range(segments):
        path = folder / f"{epoch}-{index}.parquet"
        pq.write_table(table.slice(index * size, size), path)
        paths.append(path)
    number = EpochNumber(epoch)
    return Delivery(home, "shop", "counts_sink", "counts", number, table.num_rows, table.schema, tuple(paths))


def words(epoch: int, rows: int = 10) -> pa.Table:
    return pa.table({"word": [f"w{epoch}-{i}" for i in range(rows)], "n": pa.array(range(rows), pa.int64())})
