"""What a node does before it works, as far as it needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

import rekindle as rk
from rekindle.errors import DeclarationError, SourceError
from rekindle.keeper.records import EpochNumber, Position
from rekindle.node.ingest import REJECTED
from rekindle.node.process import clean_up, source_schemas
from rekindle.sources.base import Reader, Source
from rekindle.supervisor.decide import REFUSED
from tests.node.household import Household

SPARK: Any = None
SCHEMA = StructType([StructField("n", LongType(), nullable=False)])


class Telling(Source):
    """A source whose schema is what the test says."""

    def __init__(self, told: StructType | Exception) -> None:
        self.told = told

    def schema(self, spark: Any) -> StructType:
        if isinstance(self.told, Exception):
            raise self.told
        return self.told

    def open(self, history: Iterable[Position]) -> Reader:
        raise NotImplementedError

    def describe(self) -> str:
        return "a source of the test"


def declared(source: Source) -> rk.Pipeline:
    pipeline = rk.Pipeline("p")
    pipeline.source("lines", source)
    return pipeline


def refusal(source: Source) -> DeclarationError:
    pipeline = declared(source)
    with pytest.raises(DeclarationError) as caught:
        source_schemas(pipeline, SPARK)
    assert str(pipeline.sources["lines"].place) in caught.value.detail
    assert caught.value.exit_code == REFUSED  # so a node that ends with it is not started again
    return caught.value


def test_the_schemas_of_sources_and_their_dead_letters() -> None:
    schemas = source_schemas(declared(Telling(SCHEMA)), SPARK)
    assert schemas == {"lines": StructType([StructField("n", LongType())]), "lines_rejected": REJECTED}


def test_a_schema_that_cannot_be_understood_is_refused_with_its_place() -> None:
    told = SourceError("the schema cannot be understood", detail="'id lnog'", hint='for example schema="id long"')
    error = refusal(Telling(told))
    assert error.primary == "source 'lines': the schema cannot be understood"
    assert "'id lnog'" in error.detail
    assert error.hint == 'for example schema="id long"'


def test_columns_that_csv_files_cannot_have_are_refused(tmp_path: Path) -> None:
    schema = StructType([StructField("a", ArrayType(LongType()))])
    error = refusal(rk.sources.Files(tmp_path, format="csv", schema=schema))
    assert "the column 'a' cannot be array<bigint> in CSV files" in error.primary


def test_an_empty_folder_without_a_schema_says_what_to_do(tmp_path: Path) -> None:
    error = refusal(rk.sources.Files(tmp_path))
    assert "there is no Parquet file to take the schema from" in error.primary
    assert str(tmp_path) in error.detail
    assert error.hint == 'put one there, or declare schema="..."'
    assert "is not there" in refusal(rk.sources.Files(tmp_path / "none")).primary


def test_what_a_source_of_ones_own_raises_is_refused_with_its_lines() -> None:
    error = refusal(Telling(KeyError("columns")))
    assert error.primary == "source 'lines' does not tell its schema: KeyError: 'columns'"
    assert "in schema" in error.detail and "test_process.py" in error.detail
    assert "a source of the test" in error.hint


def test_no_secret_of_a_spark_source_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    source = rk.sources.Spark("kafka", {"password": "HUSH"})

    def schema(_: Any) -> None:
        raise PySparkException("cannot parse with HUSH")

    monkeypatch.setattr(source, "schema", schema)
    error = refusal(source)
    assert "cannot parse with ***" in error.primary
    assert "HUSH" not in str(error)


def test_a_jvm_that_is_gone_is_no_refusal() -> None:
    with pytest.raises(Py4JNetworkError):
        source_schemas(declared(Telling(Py4JNetworkError("gone"))), SPARK)


def test_what_is_published_while_the_sweep_looks_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = Household(tmp_path / "home")
    house.step("lines")
    me, house.me = house.me, house.keeper.enlist("other", code="")
    head = house.keeper.head

    def before_it_dies(stream: str) -> EpochNumber:
        found = head(stream)
        if found == 1:
            monkeypatch.undo()
            house.step("lines")
            house.keeper.fence(house.me, "test")
        return found

    monkeypatch.setattr(house.keeper, "head", before_it_dies)
    clean_up(house.trim.context, "main")
    assert house.keeper.head("lines") == 2 and house.folders("lines") == [1, 2]
    (house.home.streams / "lines" / f"{3:012d}-{house.me}-1").mkdir()
    (house.home.streams / "lines" / f"{3:012d}-{me}-1").mkdir()
    clean_up(house.trim.context, "main")
    assert house.folders("lines") == [1, 2, 3], "one of the third epoch may be published still"
    house.close()
