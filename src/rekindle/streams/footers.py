"""Event times of segments, as the statistics in their Parquet footers tell them. No page is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

UNIT_US = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The bounds of a segment's event times; both None where every row has a null."""

    min_us: int | None
    max_us: int | None


def event_times(footer: pq.FileMetaData) -> EventTimes | None:
    """The bounds of the first timestamp column; None if there is no such column, or no usable statistics of it."""
    column = _first_timestamp(footer.schema)
    if column is None or footer.schema.column(column).physical_type != "INT64":
        return None
    unit = json.loads(footer.schema.column(column).logical_type.to_json())["timeUnit"]
    if unit not in UNIT_US:
        return None
    times, per = UNIT_US[unit]
    lows, highs = [], []
    for index in range(footer.num_row_groups):
        chunk = footer.row_group(index).column(column)
        found = chunk.statistics
        if found is None:
            return None
        if found.has_min_max:
            lows.append(found.min_raw * times // per)
            highs.append(found.max_raw * times // per)
        elif not found.has_null_count or found.null_count != chunk.num_values:
            return None
    return EventTimes(min(lows, default=None), max(highs, default=None))


def bounds(parts: Sequence[EventTimes | None]) -> EventTimes | None:
    """The bounds of several segments together; None if those of any are not known."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    lows = [part.min_us for part in known if part.min_us is not None]
    highs = [part.max_us for part in known if part.max_us is not None]
    return EventTimes(min(lows, default=None), max(highs, default=None))


def _first_timestamp(schema: pq.ParquetSchema) -> int | None:
    """The index of the first top-level column that Spark reads as a timestamp (one without time zone is none)."""
    for index in range(len(schema)):
        column = schema.column(index)
        if column.path != column.name or column.max_repetition_level > 0:
            continue  # it is inside another column
        if column.physical_type == "INT96":
            return index
        if column.logical_type.type == "TIMESTAMP" and json.loads(column.logical_type.to_json())["isAdjustedToUTC"]:
            return index
    return None
