"""What a sink must be able to do.

A sink is given the epochs of its stream one by one, in order. The keeper records the last epoch that was
delivered; a node that dies between ``deliver`` and that record delivers the same epoch once more, with
the same key and the same rows, so ``deliver`` must know by the key what it already has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.keeper.records import EpochNumber

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Delivery:
    """One epoch on its way to a sink. ``key`` is the same whenever this epoch is delivered."""

    home: str  # its id: another home's epoch of the same number is another one
    pipeline: str
    sink: str
    stream: str
    epoch: EpochNumber
    rows: int
    schema: pa.Schema
    segments: tuple[Path, ...]

    @property
    def key(self) -> str:
        return f"{self.pipeline}/{self.home}/{self.sink}/{self.epoch}"

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in their canonical order, a batch at a time."""
        import pyarrow.parquet as pq

        for segment in self.segments:
            with pq.ParquetFile(segment) as file:
                yield from file.iter_batches()

    def table(self) -> pa.Table:
        """All rows in their canonical order."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), schema=self.schema)


class Writer(ABC):
    """An open sink, in one node. Closing is not guaranteed: a node may be killed."""

    @abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Take one epoch, or recognise by its key that it is there already. Raises SinkError."""

    def close(self) -> None:
        """Let go of what was opened."""


class Sink(ABC):
    """A declared sink. Declarations are cheap: nothing is opened before ``open``."""

    @abstractmethod
    def open(self) -> Writer:
        """Get ready to take epochs. Raises SinkError if that is impossible."""

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What the receiver sees after crashes: ``precise`` or ``at-least-once``."""

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain``. No secrets."""

    def redirected(self, folder: Path) -> Sink | None:
        """This sink, delivering into ``folder`` instead: files of lines or of Parquet, each line a row. ``verify``
        judges what appears there. None if it cannot; then ``verify`` records what the sink would be given."""
        return None
