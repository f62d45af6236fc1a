"""A batch that keeps what it is given, for tests."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Collected:
    """What a source brought: every segment as a table, and every reject as (origin, reason, row)."""

    session: SparkSession | None = None
    tables: list[pa.Table] = field(default_factory=list)
    rejects: list[tuple[str, str, str | None]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def spark(self) -> SparkSession:
        if self.session is None:
            raise RuntimeError("this test gave no SparkSession")
        return self.session

    def add_table(self, rows: pa.Table) -> None:
        self.calls.append("add_table")
        self.tables.append(rows)

    def add_parquet(self, file: Path) -> None:
        self.calls.append("add_parquet")
        self.tables.append(pq.read_table(file, partitioning=None))

    def add_frame(self, rows: DataFrame) -> None:
        self.calls.append("add_frame")
        self.tables.extend(_written(rows))

    def reject(self, *, origin: str, reason: str, row: str | None = None) -> None:
        self.calls.append("reject")
        self.rejects.append((origin, reason, row))

    def reject_frame(self, rows: DataFrame) -> None:
        self.calls.append("reject_frame")
        for table in _written(rows):
            assert table.column_names == ["origin", "reason", "row"]
            self.rejects += [(r["origin"], r["reason"], r["row"]) for r in table.to_pylist()]

    def rows(self) -> list[dict[str, Any]]:
        return [row for table in self.tables for row in table.to_pylist()]


def _written(rows: DataFrame) -> list[pa.Table]:
    """As a node does it: Spark writes Parquet files, one a task."""
    folder = Path(tempfile.mkdtemp())
    try:
        rows.write.parquet(str(folder / "out"))
        return [pq.read_table(f, partitioning=None) for f in sorted((folder / "out").glob("part-*.parquet"))]
    finally:
        shutil.rmtree(folder)
