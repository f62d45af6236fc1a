"""``spark.read.format("rekindle")`` and ``spark.readStream.format("rekindle")``: streams, open to any Spark.

Options: ``home`` the folder, ``stream`` its name, ``epoch`` read up to this epoch (batch), ``from_epoch`` start after
this one (with the oldest that is kept, unless given), ``positions`` "true" to add the canonical position (``_epoch``,
``_segment``, ``_index``). A keeper with a password is named by the environment variable REKINDLE_KEEPER, never by an
option, since options are logged.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import LongType, StructType

from rekindle.errors import DeclarationError, EpochTrimmed, SegmentDamaged
from rekindle.home import Home, open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Epoch
from rekindle.streams.arrow import arrow_schema
from rekindle.streams.segments import locate

POSITION = ("_epoch", "_segment", "_index")
PATIENCE_S = 30.0


@dataclass
class Segments(InputPartition):
    """What one task reads: path, epoch and index of each segment."""

    files: tuple[tuple[str, int, int], ...]


class RekindleDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "rekindle"

    def schema(self) -> StructType:
        with Opened(self.options) as opened:
            return opened.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(self.options, schema)


class Opened:
    """A home and its keeper, opened for one stream."""

    def __init__(self, options: Any) -> None:
        values = {key.lower(): value for key, value in dict(options).items()}
        for name in ("home", "stream"):
            if name not in values:
                raise DeclarationError(
                    f"the rekindle format needs the option {name!r}",
                    hint='spark.read.format("rekindle").option("home", DIR).option("stream", NAME)',
                )
        self.positions = values.get("positions", "false").lower() == "true"
        self.through = _whole(values, "epoch")
        after = _whole(values, "from_epoch")
        self.stream = values["stream"]
        self.home: Home = open_home(Path(values["home"]))
        url = None if self.home.keeper_url == "sqlite" else os.environ.get("REKINDLE_KEEPER")
        self.keeper: Keeper = open_keeper(url, home=self.home, clock=time.time, patience_s=PATIENCE_S)
        streams = self.keeper.streams()
        if self.stream not in streams:
            known = ", ".join(sorted(streams)) or "none yet"
            self.keeper.close()
            raise DeclarationError(f"the home has no stream {self.stream!r}", detail=f"there are: {known}")
        self.schema: StructType = StructType.fromJson(json.loads(streams[self.stream].schema))
        if self.positions:
            for name in POSITION:
                self.schema = self.schema.add(name, LongType())
        head, oldest = self.keeper.head(self.stream), self.keeper.oldest(self.stream)
        self.after = after if after is not None else max(0, oldest - 1)
        asked = after + 1 if after is not None and after < head else self.through
        if asked and asked < oldest:
            self.keeper.close()
            raise EpochTrimmed(
                f"epoch {asked} of stream {self.stream!r} is not kept any more",
                detail=f"kept are the epochs {oldest} to {head}",
                hint="leave 'from_epoch' out to read what is kept; retain_s of the stream says how long that is",
            )
        if self.through is not None and self.through > head:
            self.keeper.close()
            raise DeclarationError(
                f"stream {self.stream!r} has no epoch {self.through} yet", detail=f"its newest is {head}"
            )

    def epochs(self, after: int, through: int | None) -> list[Epoch]:
        """The epochs in (after, through], all of them. Raises EpochTrimmed."""
        records = self.keeper.epochs(self.stream, after=after, through=through)
        is_missing = records[0].epoch != after + 1 if records else through is not None and through > after
        if is_missing:
            raise EpochTrimmed(
                f"epoch {after + 1} of stream {self.stream!r} was trimmed before it was read",
                detail=f"the oldest epoch that is kept is {self.keeper.oldest(self.stream)}",
                hint="a query outside the pipeline must not fall behind by more than the stream's retain_s; start it "
                "with a new checkpoint to read what is kept",
            )
        return records

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.keeper.close()


class BatchReader(DataSourceReader):
    def __init__(self, options: Any, schema: StructType) -> None:
        self._options = dict(options)
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        with Opened(self._options) as opened:
            return grouped(opened.home, opened.epochs(opened.after, opened.through))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self._schema)


class StreamReader(DataSourceStreamReader):
    def __init__(self, options: Any, schema: StructType) -> None:
        self._options = dict(options)
        self._schema = schema
        self._opened: Opened | None = None

    def _open(self) -> Opened:
        if self._opened is None:
            self._opened = Opened(self._options)
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        return {"epoch": self._open().after}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        opened = self._open()
        return {"epoch": opened.keeper.head(opened.stream)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        opened = self._open()
        return grouped(opened.home, opened.epochs(start["epoch"], end["epoch"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self._schema)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.keeper.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def grouped(home: Home, records: Sequence[Epoch], groups: int | None = None) -> Sequence[InputPartition]:
    """Segments in about as many partitions as there are cores; one with nothing in it if there are none."""
    files = [
        (str(locate(home, segment, stream=record.stream, epoch=record.epoch)), record.epoch, index)
        for record in records
        for index, segment in enumerate(record.output.segments)
    ]
    count = max(1, min(groups or os.cpu_count() or 1, len(files)))
    size = -(-len(files) // count) if files else 1
    return [Segments(tuple(files[i : i + size])) for i in range(0, len(files), size)] or [Segments(())]


def rows_of(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of the segments, in order, as Arrow batches of exactly ``schema``."""
    if not isinstance(partition, Segments):
        raise TypeError(f"not a partition of this source: {partition!r}")
    target = arrow_schema(schema)
    wants_position = [name for name in POSITION if name in schema.names]
    columns = [name for name in schema.names if name not in POSITION]
    for path, epoch, segment in partition.files:
        index = 0
        try:
            opened = pq.ParquetFile(path, page_checksum_verification=True)
        except FileNotFoundError:
            raise SegmentDamaged(
                f"a segment of epoch {epoch} is gone: its epoch was trimmed while it was read, or it is damaged",
                detail=path,
                hint="read again; an epoch that is older than its stream's retain_s may be trimmed at any time",
            ) from None
        with opened as file:
            for batch in file.iter_batches(columns=columns):
                arrays: dict[str, Any] = {name: batch.column(name) for name in columns}
                n = batch.num_rows
                position = {"_epoch": [epoch] * n, "_segment": [segment] * n, "_index": range(index, index + n)}
                arrays |= {name: pa.array(position[name], pa.int64()) for name in wants_position}
                table = pa.table({name: arrays[name] for name in schema.names}).cast(target)
                yield from table.to_batches()
                index += n


def _whole(values: dict[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise DeclarationError(f"the option {name!r} must be a whole number, not {text!r}")
    return int(text)
