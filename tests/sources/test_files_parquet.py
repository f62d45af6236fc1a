"""Parquet files: copied if they fit, rewritten if no value changes, rejected otherwise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.errors import SourceError
from rekindle.keeper.records import Span
from rekindle.sources import Files
from tests.sources.collect import Collected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
US = pa.timestamp("us", "UTC")

Bring = Callable[..., Collected]


@pytest.fixture
def bring(spark: SparkSession, tmp_path: Path) -> Bring:
    """Claim and read what is in the folder ``in``."""

    def run(schema: str) -> Collected:
        source = Files(tmp_path / "in", schema=schema, settle_s=0)
        source.schema(spark)
        reader = source.open([])
        through = reader.newest(None, 10_000_000)
        assert through is not None
        batch = Collected()  # without a session: Parquet is read without Spark
        reader.read(Span(None, through), batch)
        return batch

    (tmp_path / "in").mkdir()
    return run


def put(tmp_path: Path, name: str, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "in" / name
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_a_file_of_the_streams_schema_is_copied(tmp_path: Path, bring: Bring) -> None:
    put(tmp_path, "a", {"a": pa.array([1, 2], pa.int64()), "t": pa.array([AT, None], US)})
    batch = bring("a long, t timestamp")
    assert batch.calls == ["add_parquet"]
    assert batch.rows() == [{"a": 1, "t": AT}, {"a": 2, "t": None}]


def test_other_order_extra_columns_and_castable_types_are_rewritten(tmp_path: Path, bring: Bring) -> None:
    put(
        tmp_path,
        "a",
        {
            "extra": ["x"] * 3,
            "t": pa.array([AT] * 3, pa.timestamp("ms", "Europe/Berlin")),
            "d": pa.array([1, 2, None], pa.int32()),
            "s": pa.array(["p", "q", "p"]).dictionary_encode(),
            "a": pa.array([1, 2, 3], pa.uint32()),
            "l": pa.array([[1], [], None], pa.list_(pa.int32())),
        },
        row_group_size=2,
    )
    batch = bring("a long, d decimal(12,2), s string, t timestamp, l array<long>")
    assert batch.calls == ["add_table", "add_table"]
    assert batch.rejects == []
    when = AT.replace(microsecond=678000)
    assert batch.rows() == [
        {"a": 1, "d": Decimal("1.00"), "s": "p", "t": when, "l": [1]},
        {"a": 2, "d": Decimal("2.00"), "s": "q", "t": when, "l": []},
        {"a": 3, "d": None, "s": "p", "t": when, "l": None},
    ]
    assert batch.tables[0].schema.field("t").type == US


def test_int96_timestamps_as_spark_writes_them_by_default(tmp_path: Path, bring: Bring) -> None:
    put(tmp_path, "a", {"t": pa.array([AT], US)}, use_deprecated_int96_timestamps=True)
    batch = bring("t timestamp")
    assert batch.calls == ["add_table"]
    assert batch.rows() == [{"t": AT}]


@pytest.mark.parametrize(
    ("column", "schema", "reason"),
    [
        (pa.array([1]), "b long", "'b' is missing"),
        (pa.array(["7"]), "a long", "is string, the stream has int64"),
        (pa.array([7]), "a string", "is int64, the stream has string"),
        (pa.array([2**40]), "a int", "cannot be read"),
        (pa.array([0.5]), "a long", "is double"),
        (pa.array([2**60 + 1]), "a double", "cannot be read"),
        (pa.array([1], pa.timestamp("us")), "a timestamp", "is timestamp[us], the stream has timestamp[us, tz=UTC]"),
        (pa.array([1001], pa.timestamp("ns", "UTC")), "a timestamp", "cannot be read"),
        (pa.array([Decimal("1.23")]), "a decimal(10,1)", "cannot be read"),
        (pa.array([{"x": 1}]), "a struct<y: long>", "is struct"),
        (pa.array([[1]]), "a long", "is list"),
        (pa.array([b"\xff"], pa.binary()), "a string", "is binary"),
    ],
)
def test_what_would_change_a_value_rejects_the_whole_file(
    tmp_path: Path, bring: Bring, column: pa.Array, schema: str, reason: str
) -> None:
    put(tmp_path, "bad", {"a": column})
    batch = bring(schema)
    assert batch.tables == []
    [(origin, why, row)] = batch.rejects
    assert (origin, row) == ("bad", None)
    assert reason in why


def test_a_late_row_that_does_not_fit_rejects_the_rows_before_it_too(tmp_path: Path, bring: Bring) -> None:
    put(tmp_path, "bad", {"a": pa.array([1, 2, 3, 2**40])}, row_group_size=1)
    batch = bring("a int")
    assert batch.calls == ["reject"]


def test_damaged_files_are_rejected_and_the_others_read(tmp_path: Path, bring: Bring) -> None:
    values = {"a": pa.array(range(100_000), pa.int64())}
    good = put(tmp_path, "good", values)
    content = good.read_bytes()
    (tmp_path / "in" / "truncated").write_bytes(content[: len(content) // 2])
    (tmp_path / "in" / "empty").write_bytes(b"")
    (tmp_path / "in" / "text").write_bytes(b"hello, I am no Parquet")
    middle = bytearray(content)
    middle[2000:4000] = bytes(b ^ 0xA5 for b in middle[2000:4000])
    (tmp_path / "in" / "flipped").write_bytes(bytes(middle))
    assert pq.read_metadata(tmp_path / "in" / "flipped").num_rows == 100_000  # the footer looks well
    batch = bring("a long")
    assert batch.calls.count("add_parquet") == 1
    assert sorted(o for o, _, _ in batch.rejects) == ["empty", "flipped", "text", "truncated"]
    assert sum(t.num_rows for t in batch.tables) == 100_000


def test_rows_max_counts_footers(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for index in range(10):
        put(tmp_path, f"{index}", {"a": pa.array(range(100))})
    reader = Files(tmp_path / "in", schema="a long", settle_s=0).open([])
    position, sizes = None, []
    while (position := reader.newest(position, 350)) is not None:
        sizes.append(len(position["files"]))
    assert sizes == [3, 3, 3, 1]
    assert len(Files(tmp_path / "in", settle_s=0).open([]).newest(None, 1)["files"]) == 1  # type: ignore[index]


def test_the_schema_of_the_oldest_readable_file_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = Files(tmp_path / "in")
    with pytest.raises(SourceError, match="no Parquet file"):
        source.schema(spark)
    (tmp_path / "in" / "0").write_bytes(b"junk")
    put(tmp_path, "a[1]{x} y", {"a": pa.array([1], pa.int32()), "t": pa.array([AT], US)})
    put(tmp_path, "b", {"other": [1]})
    assert source.schema(spark).simpleString() == "struct<a:int,t:timestamp>"
