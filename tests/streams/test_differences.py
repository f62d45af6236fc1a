from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, MapType, StringType, StructType

from rekindle.streams import digest
from rekindle.streams.differences import EXAMPLES, Difference, differing, digests
from rekindle.streams.writer import observe

pytestmark = pytest.mark.spark
SCHEMA = StructType().add("key", "long").add("total", "double").add("tags", MapType(StringType(), LongType()))


def written(path: Path, *rows: tuple[int, float]) -> Path:
    columns = {
        "key": pa.array([key for key, _ in rows], pa.int64()),
        "total": pa.array([total for _, total in rows], pa.float64()),
        "tags": pa.array([[("a", key)] for key, _ in rows], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(columns), path)
    return path


def test_rows_that_only_one_has(spark: SparkSession, tmp_path: Path) -> None:
    one = written(tmp_path / "1.parquet", (1, 0.1 + 0.2), (2, 2.0), (2, 2.0), (3, 3.0))
    two = written(tmp_path / "2.parquet", (3, 3.0), (1, 0.3))
    more = written(tmp_path / "3.parquet", (2, 2.5))
    found = differing(spark, SCHEMA, [one], [two, more])
    assert (found.only_expected, found.only_found) == (2, 1)
    assert [json.loads(row)["total"] for row in found.expected] == [2.0]
    assert [json.loads(row)["total"] for row in found.found] == [2.5]
    assert differing(spark, SCHEMA, [one, more], [more, one]) == Difference(0, 0, (), ())


def test_one_side_may_have_no_file_and_examples_are_few(spark: SparkSession, tmp_path: Path) -> None:
    one = written(tmp_path / "1.parquet", *((key, 1.0) for key in range(9, -1, -1)))
    found = differing(spark, SCHEMA, [one], [])
    assert (found.only_expected, found.only_found, found.found) == (10, 0, ())
    assert [json.loads(row)["key"] for row in found.expected] == list(range(EXAMPLES))


def test_files_add_up_to_the_digest_of_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    files = [written(tmp_path / "1.parquet", (1, 0.5)), written(tmp_path / "2.parquet", (2, 1.5), (3, 2.5))]
    parts = digests(spark, SCHEMA, files)
    assert {name: rows for name, (rows, _, _) in parts.items()} == {"1.parquet": 1, "2.parquet": 2}
    rows, high, low = (sum(part[i] for part in parts.values()) for i in range(3))
    whole = spark.read.schema(SCHEMA).parquet(*map(str, files))
    assert digest.digest({digest.ROWS: rows, digest.HIGH: high, digest.LOW: low}) == observe(whole)
