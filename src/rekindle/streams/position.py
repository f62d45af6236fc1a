"""The canonical position of a row: epoch of its stream, segment in the epoch, index in the segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def position() -> Column:
    """A column ``struct<epoch, segment, index>`` of the rows of one input, for use directly on that input.

    Within an epoch Spark's shuffles give no order. An operator whose result depends on the order of rows takes
    the position along and sorts by it, and comes out the same in every replay::

        def ranked(bids):
            placed = bids.withColumn("position", rk.position())
            ...  # group, and sort each group by "position"

    It costs nothing where it is not used. An input whose positions are read is never fused.
    """
    from pyspark.sql import functions as F

    name = F.col("_metadata.file_name")  # <epoch>-<segment>.parquet, see streams.writer.segment_name
    return F.struct(
        F.substring(name, 1, 12).cast("long").alias("epoch"),
        F.substring(name, 14, 5).cast("int").alias("segment"),
        F.col("_metadata.row_index").alias("index"),
    )
