"""How two computations of the same epoch differ: row by row, by the same hash that the digest adds up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.streams import digest

EXAMPLES = 3
_SIDE, _HASH, _ROW, _TEXT = "rekindle_side", "rekindle_hash", "rekindle_row", "rekindle_text"


@dataclass(frozen=True, slots=True)
class Difference:
    """How many rows are in one only, and a few of each, as JSON, ordered so that rows that belong together can be
    found."""

    only_expected: int
    only_found: int
    expected: tuple[str, ...]
    found: tuple[str, ...]


def differing(spark: SparkSession, schema: StructType, expected: Sequence[Path], found: Sequence[Path]) -> Difference:
    """The rows of ``expected`` and ``found``, Parquet files of one schema, that the other does not have."""
    both = _side(spark, schema, expected, 1).unionByName(_side(spark, schema, found, -1))
    surplus = both.groupBy(_HASH).agg(F.sum(_SIDE).alias(_SIDE), F.first(_ROW).alias(_ROW)).where(F.col(_SIDE) != 0)
    surplus = surplus.withColumn(_TEXT, F.col(_ROW).cast("string")).cache()
    try:
        wanted, more = F.col(_SIDE) > 0, F.col(_SIDE) < 0
        counted = surplus.agg(F.sum(F.when(wanted, F.col(_SIDE))), F.sum(F.when(more, -F.col(_SIDE)))).collect()[0]
        return Difference(counted[0] or 0, counted[1] or 0, _examples(surplus, wanted), _examples(surplus, more))
    finally:
        surplus.unpersist()


def digests(spark: SparkSession, schema: StructType, files: Sequence[Path]) -> dict[str, tuple[int, int, int]]:
    """What the rows of each Parquet file, by its name, contribute to a digest: rows, high, low."""
    rows = spark.read.schema(schema).parquet(*map(str, files)).select("*", F.col("_metadata.file_name").alias(_SIDE))
    summed = rows.groupBy(_SIDE).agg(*digest.metrics(schema))
    return {row[_SIDE]: (row[digest.ROWS], row[digest.HIGH] or 0, row[digest.LOW] or 0) for row in summed.collect()}


def _side(spark: SparkSession, schema: StructType, files: Sequence[Path], side: int) -> DataFrame:
    rows = spark.read.schema(schema).parquet(*map(str, files)) if files else spark.createDataFrame([], schema)
    row = F.struct(*(F.col("`" + name.replace("`", "``") + "`") for name in schema.names))
    return rows.select(F.lit(side).alias(_SIDE), digest.row_hash(schema).alias(_HASH), row.alias(_ROW))


def _examples(surplus: DataFrame, which: Column) -> tuple[str, ...]:
    rows = surplus.where(which).orderBy(_TEXT).limit(EXAMPLES).collect()
    return tuple(json.dumps(_plain(row[_ROW]), default=str) for row in rows)


def _plain(value: Any) -> Any:
    return value.asDict(recursive=True) if isinstance(value, Row) else value
