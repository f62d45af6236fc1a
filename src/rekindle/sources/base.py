"""What a source must be able to do.

A source is read by a fragment of its own, one epoch a turn: ``newest`` proposes how far the next epoch
reads, the keeper records that as the claim, ``read`` brings exactly the claimed range. After a crash
``read`` is asked for the same range again and must bring the same rows; a source that cannot do that
is not read this way (see ``Spark``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rekindle.keeper.records import Position, Span

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Batch(Protocol):
    """Where ``read`` puts what it brings: rows of the stream, and rows that are not fit for it.

    Each call adds one or more segments, in the order of the calls. Nothing is visible before the epoch
    is published; a batch that is dropped half-way leaves nothing behind.
    """

    @property
    def spark(self) -> SparkSession: ...

    def add_table(self, rows: pa.Table) -> None:
        """Rows held in memory, of the stream's schema."""

    def add_parquet(self, file: Path) -> None:
        """A Parquet file of the stream's schema. It is copied, byte for byte."""

    def add_frame(self, rows: DataFrame) -> None:
        """A batch DataFrame of the stream's schema; Spark writes it."""

    def reject(self, *, origin: str, reason: str, row: str | None = None) -> None:
        """One thing that cannot become a row: it goes to the stream's dead letters."""

    def reject_frame(self, rows: DataFrame) -> None:
        """Rejected rows as a DataFrame of (origin string, reason string, row string)."""


class Reader(ABC):
    """An open source, in one node. Closing is not guaranteed: a node may be killed."""

    @abstractmethod
    def newest(self, after: Position | None, rows_max: int) -> Position | None:
        """The position up to which the next epoch should read, or None if there is nothing new.

        Must return soon. The range should hold about ``rows_max`` rows at the most, and at least one
        thing. The answer is recorded as JSON, so it must survive ``json.loads(json.dumps(...))``.
        """

    @abstractmethod
    def read(self, span: Span, batch: Batch) -> None:
        """Bring exactly the claimed range, the same rows in the same order every time.

        Raises SourceError where that is impossible (a claimed file is gone, for example): rows are
        never dropped in silence.
        """

    def close(self) -> None:
        """Let go of what was opened."""


class Source(ABC):
    """A declared source. Declarations are cheap: nothing is opened before ``open``."""

    @abstractmethod
    def schema(self, spark: SparkSession) -> Any:
        """The StructType of the stream. Called once a node, before ``open``."""

    @abstractmethod
    def open(self, history: Iterable[Position]) -> Reader:
        """Start reading, given every position that was ever claimed, oldest first; without ``needs_history`` only the
        last one that was published and what was claimed after it."""

    @property
    def needs_history(self) -> bool:
        """Whether a reader must know all positions, not only the last one. Then no claim of the source is ever
        trimmed."""
        return True

    @property
    def guarantee(self) -> str:
        """What the stream holds of the source, whatever dies."""
        return "precise"

    @property
    def has_rejects(self) -> bool:
        """Whether the stream ``<name>_rejected`` exists beside this one."""
        return True

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain``. No secrets."""
