"""What an operator is, read from Spark's plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructType, TimestampType

import rekindle as rk
from rekindle.errors import DeclarationError
from rekindle.node.traits import Analysis, analyse
from rekindle.plan import Traits

SCHEMA = StructType().add("ts", TimestampType()).add("k", LongType()).add("line", StringType()).add("d", DoubleType())
Operator = Callable[..., Any]


def analysis(spark: SparkSession, folder: Path, *operators: Operator, **options: Any) -> Analysis:
    pipeline = rk.Pipeline("p")
    for source in ("s", "t"):
        pipeline.source(source, rk.sources.Rate(1))
    for operator in operators:
        pipeline.stream(**options)(operator)
    return analyse(pipeline, spark, {"s": SCHEMA, "t": SCHEMA}, folder)


def traits(spark: SparkSession, folder: Path, operator: Operator, **options: Any) -> Traits:
    return analysis(spark, folder, operator, **options).traits["o"]


def test_projections_and_filters_keep_no_state(spark: SparkSession, tmp_path: Path) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.filter("k > 1").withColumn("x", F.explode(F.split("line", " ")))

    found = analysis(spark, tmp_path, o)
    assert found.traits["o"] == Traits()
    assert found.schemas["o"].names == ["ts", "k", "line", "d", "x"]


def static_join(s: DataFrame) -> DataFrame:
    return s.join(s.sparkSession.range(5).withColumnRenamed("id", "k"), "k")


def test_a_join_with_a_static_table_keeps_no_state(spark: SparkSession, tmp_path: Path) -> None:
    def o(s: DataFrame) -> DataFrame:
        return static_join(s)

    assert traits(spark, tmp_path, o).stateful == ()


def test_a_static_table_from_outside_may_change(spark: SparkSession, tmp_path: Path) -> None:
    """It is read anew in each epoch, so what was joined with it must be logged, and no state may depend on it."""
    table = tmp_path / "table"
    spark.range(5).withColumnRenamed("id", "k").write.parquet(str(table))

    def o(s: DataFrame) -> DataFrame:
        return s.join(s.sparkSession.read.parquet(str(table)), "k")

    assert traits(spark, tmp_path, o).nondeterministic == ("a static table that is read from outside, and may change",)
    assert traits(spark, tmp_path, o, deterministic=True).stateful == ()

    def counted(s: DataFrame) -> DataFrame:
        return o(s).groupBy("k").count()

    with pytest.raises(DeclarationError, match="not deterministic and keeps state") as refused:
        analysis(spark, tmp_path, counted, output_mode="update")
    assert "static table" in refused.value.detail and "a table that never changes" in refused.value.hint
    assert analysis(spark, tmp_path, counted, output_mode="update", deterministic=True).fragments[0].stateful


def test_a_table_that_the_plan_holds_cannot_change(spark: SparkSession, tmp_path: Path) -> None:
    held = spark.createDataFrame([(1, "a")], "k long, name string")

    def o(s: DataFrame) -> DataFrame:
        return s.join(held, "k")

    assert traits(spark, tmp_path, o).nondeterministic == ()


@pytest.mark.parametrize(
    ("build", "mode", "reason"),
    [
        (lambda s, t: s.groupBy("k").count(), "update", "an aggregate"),
        (lambda s, t: s.dropDuplicates(["k"]), "append", "dropDuplicates"),
        (lambda s, t: s.select("k").distinct(), "update", "dropDuplicates"),
        (
            lambda s, t: s.withWatermark("ts", "1 second").dropDuplicatesWithinWatermark(["k"]),
            "append",
            "dropDuplicatesWithinWatermark",
        ),
        (lambda s, t: s.select("k").join(t.select("k"), "k"), "append", "a join of streams"),
        (lambda s, t: s.select("k").join(s.select("k"), "k"), "append", "a join of streams"),
        (lambda s, t: s.limit(3), "append", "limit"),
        (
            lambda s, t: s.withWatermark("ts", "1 second").groupBy(F.session_window("ts", "5 seconds"), "k").count(),
            "append",
            "an aggregate",
        ),
    ],
)
def test_state(spark: SparkSession, tmp_path: Path, build: Operator, mode: str, reason: str) -> None:
    def o(s: DataFrame, t: DataFrame) -> Any:
        return build(s, t)

    found = traits(spark, tmp_path, o, output_mode=mode)
    assert found.stateful == (reason,)
    assert found.nondeterministic == ()


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("rand()", "rand()"),
        ("uuid()", "uuid()"),
        ("current_timestamp()", "current_timestamp()"),
        ("now()", "now()"),
        ("current_date()", "current_date()"),
        ("shuffle(array(1, 2))", "shuffle()"),
    ],
)
def test_nondeterminism(spark: SparkSession, tmp_path: Path, expression: str, reason: str) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.select("k", F.upper(F.expr(expression).cast("string")).alias("x"))

    assert traits(spark, tmp_path, o).nondeterministic == (reason,)


def test_a_udf_that_says_so_is_nondeterministic(spark: SparkSession, tmp_path: Path) -> None:
    spell, other = F.udf(lambda k: str(k), "string"), F.udf(lambda k: str(k), "string")

    def o(s: DataFrame) -> DataFrame:
        return s.select(other.asNondeterministic()("k").alias("x"))

    def plain(s: DataFrame) -> DataFrame:
        return s.select(spell("k").alias("x"))

    found = analysis(spark, tmp_path, o, plain)
    assert found.traits["o"].nondeterministic == ("the UDF <lambda>",)
    assert found.traits["plain"].nondeterministic == ()


@pytest.mark.parametrize(
    ("column", "refused"),
    [
        (F.collect_list, True),
        (F.first, True),
        (F.last, True),
        (F.collect_set, False),
        (F.max, False),
        (lambda c: F.sort_array(F.collect_list(c)), False),
        (lambda c: F.size(F.collect_list(c)), False),
    ],
)
def test_an_aggregate_that_depends_on_the_order_of_rows_is_refused(
    spark: SparkSession, tmp_path: Path, column: Operator, refused: bool
) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.groupBy("k").agg(column("line").alias("x"))

    if not refused:
        assert traits(spark, tmp_path, o, output_mode="update").nondeterministic == ()
        return
    with pytest.raises(DeclarationError, match="not deterministic and keeps state") as caught:
        traits(spark, tmp_path, o, output_mode="update")
    assert "order of rows" in caught.value.detail
    assert traits(spark, tmp_path, o, output_mode="update", deterministic=True).stateful == ("an aggregate",)


def test_positions_are_seen_and_cut_the_graph(spark: SparkSession, tmp_path: Path) -> None:
    def a(s: DataFrame) -> DataFrame:
        return s.select("k")

    def o(a: DataFrame) -> DataFrame:
        return a.withColumn("at", rk.position())

    found = analysis(spark, tmp_path, a, o)
    assert found.traits["a"].reads_positions_of == frozenset()
    assert found.traits["o"].reads_positions_of == {"a"}
    assert [f.name for f in found.fragments] == ["a", "o"]


def test_a_watermark_travels_with_a_stateless_stream_only(spark: SparkSession, tmp_path: Path) -> None:
    def a(s: DataFrame) -> DataFrame:
        return s.withWatermark("ts", "7 seconds").select("ts", "k")

    def counted(a: DataFrame) -> DataFrame:
        return a.groupBy(F.window("ts", "5 seconds")).agg(F.max("ts").alias("ts"))

    found = analysis(spark, tmp_path, a, counted)
    assert found.watermarks == {"a": {"ts": 7000}}
    assert found.traits["counted"].has_watermark


def test_the_users_error_comes_with_their_line(spark: SparkSession, tmp_path: Path) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.select("nope")

    with pytest.raises(DeclarationError, match="operator of stream 'o' does not build") as caught:
        traits(spark, tmp_path, o)
    assert 's.select("nope")' in caught.value.detail
    assert "s(ts, k, line, d)" in caught.value.hint


def test_a_position_is_taken_of_the_input_itself(spark: SparkSession, tmp_path: Path) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.select("k").groupBy("k").count().select(rk.position())

    with pytest.raises(DeclarationError, match="does not build") as caught:
        traits(spark, tmp_path, o, output_mode="update")
    assert "directly of the input" in caught.value.hint


@pytest.mark.parametrize("field", ["file_path", "file_modification_time", "file_size"])
def test_what_differs_in_a_replay_is_refused(spark: SparkSession, tmp_path: Path, field: str) -> None:
    def o(s: DataFrame) -> DataFrame:
        return s.select("k", F.col(f"_metadata.{field}").alias("x"))

    with pytest.raises(DeclarationError, match=f"reads _metadata.{field}"):
        traits(spark, tmp_path, o)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: None, "returned NoneType, not a DataFrame"),
        (lambda s: s.sparkSession.range(3), "does not depend on any of its inputs"),
        (lambda s: s.orderBy("k"), "cannot run stream 'o' in append mode"),
        (lambda s: s.groupBy("k").count(), "cannot run stream 'o' in append mode"),
        (lambda s: s.select("k", F.col("d").alias("K")), "two columns named 'k'"),
        (lambda s: s.select(F.lit(None).alias("x")), "column 'x' of stream 'o' has no type"),
    ],
)
def test_what_cannot_run_is_refused(spark: SparkSession, tmp_path: Path, build: Operator, message: str) -> None:
    def o(s: DataFrame) -> Any:
        return build(s)

    with pytest.raises(DeclarationError, match=message):
        traits(spark, tmp_path, o)
