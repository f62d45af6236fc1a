"""Partition: the same state over another number of partitions.

Spark does it, offline, on a checkpoint that no query uses: it appends a batch that reads no input, with a snapshot of
the state in its new partitions. So Spark's batch number moves on by one and the epoch does not; the sources' log
offsets, from which epochs are read, stay what they were. A query that is started from it takes the number of
partitions from the checkpoint, whatever its session says.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from rekindle.errors import BrokenInvariant
from rekindle.state.checkpoint import Standing, numbered, standing
from rekindle.state.layers import partitions_of


def partitions(checkpoint: Path) -> int | None:
    """Over how many partitions the state is spread; None before the first batch."""
    stand = standing(checkpoint)
    return None if stand.batch < 0 else partitions_of(checkpoint, stand.batch)


def repartition(spark: SparkSession, checkpoint: Path, count: int) -> Standing:
    """Spread the state of a private checkpoint (a fork, a restored one) over ``count`` partitions, in place.

    If it dies half-way the checkpoint must be thrown away, and another fork be made. Nothing happens if the state
    has that number already, or if there is no state yet: then the session decides.
    """
    if count < 1:
        raise BrokenInvariant(f"a state cannot have {count} partitions")
    before = standing(checkpoint)
    if before.batch < 0 or partitions_of(checkpoint, before.batch) == count:
        return before
    begun = [batch for batch in numbered(checkpoint / "offsets") if batch > before.batch]
    if begun:
        raise BrokenInvariant(f"batch {begun[0]} of the checkpoint is not committed", detail=f"{checkpoint}: fork it")
    _offline(spark, checkpoint, count)
    after = standing(checkpoint)
    if after.epoch != before.epoch or partitions_of(checkpoint, after.batch) != count:
        raise BrokenInvariant(
            "Spark did not leave the state as it was, over other partitions",
            detail=f"{checkpoint}: {before} became {after}, wanted were {count} partitions",
        )
    return after


def _offline(spark: SparkSession, checkpoint: Path, count: int) -> None:
    # Spark 4.3 has no public name for it.
    spark._streamingCheckpointManager.repartition(str(checkpoint), count)
