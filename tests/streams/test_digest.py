"""The digest: blind to order and partitioning, keen on everything else."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.streams.writer import observe

DDL = "k long, s string, d double, a array<double>, m map<string, double>, r struct<x: double, y: string>"
ROWS: list[tuple[Any, ...]] = [
    (1, "a", 0.1, [0.5, 0.25], {"p": 1.0, "q": 2.0}, (0.75, "u")),
    (1, "a", 0.1, [0.5, 0.25], {"p": 1.0, "q": 2.0}, (0.75, "u")),
    (2, None, None, None, None, None),
    (3, "c", float("nan"), [], {}, (None, None)),
]


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], ddl: str = DDL) -> DataFrame:
    return spark.createDataFrame(rows, ddl)


@pytest.fixture(scope="module")
def original(spark: SparkSession) -> str:
    return observe(frame(spark, ROWS))


def test_order_and_partitions_do_not_matter(spark: SparkSession, original: str) -> None:
    assert observe(frame(spark, ROWS[::-1]).repartition(3)) == original
    assert original.startswith("4:")


def test_no_rows(spark: SparkSession) -> None:
    assert observe(frame(spark, [])) == "0:0:0"


@pytest.mark.parametrize("column", ["k", "s", "d", "a", "m", "r"])
def test_every_column_counts(spark: SparkSession, original: str, column: str) -> None:
    changed = {
        "k": F.col("k") + 1,
        "s": F.concat("s", F.lit("!")),
        "d": F.col("d") + 1,
        "a": F.concat("a", F.array(F.lit(9.0))),
        "m": F.map_concat("m", F.create_map(F.lit("z"), F.lit(9.0))),
        "r": F.struct((F.col("r.x") + 1).alias("x"), F.col("r.y").alias("y")),
    }
    assert observe(frame(spark, ROWS).withColumn(column, changed[column])) != original


def test_a_row_more_or_less_counts_even_if_it_is_a_repeat(spark: SparkSession, original: str) -> None:
    assert observe(frame(spark, ROWS[1:])) != original
    assert observe(frame(spark, [*ROWS, ROWS[0]])) != original


def test_doubles_count_with_seven_digits(spark: SparkSession) -> None:
    def of(value: float) -> str:
        return observe(
            frame(spark, [(value, [value], {"p": value})], "d double, a array<double>, m map<string, double>")
        )

    assert of(0.1 + 0.2) == of(0.3)
    assert of(0.3) != of(0.300001)


def test_maps_have_no_order(spark: SparkSession) -> None:
    there, back = ({"p": 1.0, "q": 2.0}, {"q": 2.0, "p": 1.0})
    ddl = "m map<string, double>"
    assert observe(frame(spark, [(there,)], ddl)) == observe(frame(spark, [(back,)], ddl))


def test_sums_of_many_hashes_do_not_overflow(spark: SparkSession) -> None:
    assert observe(spark.range(1_000_000)).startswith("1000000:")
