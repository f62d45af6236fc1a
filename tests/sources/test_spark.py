from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rekindle.errors import BrokenInvariant, DeclarationError, SourceError
from rekindle.sources import Spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_no_secret_is_shown() -> None:
    source = Spark(
        "kafka",
        {
            "kafka.bootstrap.servers": "localhost:9092",
            "kafka.sasl.jaas.config": "HUSH1",
            "kafka.ssl.truststore.PASSWORD": "HUSH2",
            "accessKey": "HUSH3",
            "auth_token": "HUSH4",
            "url": "jdbc:postgresql://me:HUSH5@localhost/db?password=HUSH6",
            "failOnDataLoss": True,
        },
    )
    for text in (source.describe(), repr(source)):
        assert "HUSH" not in text
        assert "kafka.bootstrap.servers=localhost:9092" in text
        assert "failOnDataLoss=true" in text
    assert source.options["auth_token"] == "HUSH4"


@pytest.mark.parametrize("wrong", [("",), ("rekindle",), (7,), ("kafka", {"a": []}), ("kafka", {3: "x"})])
def test_declarations_are_checked(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(DeclarationError):
        Spark(*wrong)


def test_it_is_never_opened() -> None:
    with pytest.raises(BrokenInvariant, match="never opened"):
        Spark("rate").open([])
    assert not Spark("rate").has_rejects


@pytest.mark.spark
def test_the_schema_is_the_streams(spark: SparkSession) -> None:
    assert (
        Spark("rate", {"rowsPerSecond": 5}).schema(spark).simpleString() == "struct<timestamp:timestamp,value:bigint>"
    )
    with pytest.raises(SourceError, match="cannot read the source spark nosuch") as caught:
        Spark("nosuch", {"password": "HUSH"}).schema(spark)
    assert "HUSH" not in str(caught.value)


def test_declaring_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, rekindle.sources as i, rekindle.sinks as o;"
        "i.Files('x'), i.Rate(1), i.Spark('rate'), o.Files('y'), o.Console(), o.Foreach(print);"
        "print([m for m in ('pyspark', 'pyarrow', 'numpy', 'rich', 'orjson', 'sqlalchemy') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert answer.stdout.strip() == "[]"
