"""Ingest, as far as it needs no Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.errors import PySparkException

from rekindle.node.ingest import SparkIngest
from rekindle.pipeline import Pipeline
from rekindle.sources import Spark


def test_a_spark_sources_secrets_are_not_in_its_failure(tmp_path: Path) -> None:
    source = Spark("kafka", {"kafka.sasl.jaas.config": "HUSH", "subscribe": "bids"})
    context: Any = SimpleNamespace(pipeline=Pipeline("p"), home=SimpleNamespace(work=tmp_path))
    declaration: Any = SimpleNamespace(name="bids", source=source, node="main")
    cause = SparkIngest(context, declaration).cause(PySparkException("cannot log in with HUSH to read bids"))
    assert str(cause) == "cannot log in with *** to read bids"
