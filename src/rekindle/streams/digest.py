"""The digest of an epoch: the same for the same rows, whatever their order and their partitioning.

Every row is hashed (XXH64, by Spark), and the hashes are added up. The sum is kept in two halves of 32
bits, so that it cannot overflow Spark's ANSI long: ``rows:high:low``.

Two things are made canonical before hashing. Doubles enter as floats, that is with about 7 significant
digits: a sum of doubles depends on the order of its terms in the last bits, and replicas with other
partitionings add in other orders. Maps enter as arrays sorted by key, since a map has no order.
A digest therefore tells apart everything but doubles that agree to 7 digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

ROWS, HIGH, LOW = "rows", "high", "low"
LOW_BITS = 0xFFFFFFFF


def metrics(schema: T.StructType) -> list[Column]:
    """The aggregates that one pass over an epoch observes."""
    hashed = row_hash(schema)
    return [
        F.count(F.lit(1)).alias(ROWS),
        F.sum(F.shiftrightunsigned(hashed, 32)).alias(HIGH),
        F.sum(hashed.bitwiseAND(F.lit(LOW_BITS))).alias(LOW),
    ]


def row_hash(schema: T.StructType) -> Column:
    """The hash of one row."""
    if not schema.fields:
        return F.lit(0)
    return F.xxhash64(*(canonical(_quoted(f.name), f.dataType) for f in schema.fields))


def digest(observed: Mapping[str, Any]) -> str:
    """The digest as text, from the observed metrics."""
    return f"{observed[ROWS]}:{(observed[HIGH] or 0):x}:{(observed[LOW] or 0):x}"


def event_time_column(schema: T.StructType) -> str | None:
    """The column whose bounds are on record: the first timestamp."""
    return next((f.name for f in schema.fields if isinstance(f.dataType, T.TimestampType)), None)


def canonical(column: Column, kind: T.DataType) -> Column:
    """``column`` in the form in which it is hashed."""
    if isinstance(kind, T.DoubleType):
        return column.cast("float")
    if not _needs_care(kind):
        return column
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: canonical(item, kind.elementType))
    if isinstance(kind, T.StructType):
        return F.struct(*(canonical(column.getField(f.name), f.dataType).alias(f.name) for f in kind.fields))
    if isinstance(kind, T.MapType):
        entry = T.StructType().add("key", kind.keyType).add("value", kind.valueType)
        hashed = F.transform(F.map_entries(column), lambda item: F.xxhash64(canonical(item, entry)))
        return F.array_sort(hashed)
    return column.cast("string")


def _needs_care(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _needs_care(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_needs_care(f.dataType) for f in kind.fields)
    return isinstance(kind, T.DoubleType | T.MapType | T.VariantType)


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
