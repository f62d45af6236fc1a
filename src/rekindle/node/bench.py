"""A bench: what replays compute on where there is no node. A Spark session of its own, and the pipeline's operators."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rekindle.home import Home
from rekindle.keeper.records import REJECTED_SUFFIX, StreamRecord
from rekindle.node.process import source_schemas
from rekindle.node.session import start_session
from rekindle.node.traits import Analysis, analyse
from rekindle.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Bench:
    """An engine without a node: what is computed on it is for comparing only."""

    home: Home
    spark: SparkSession
    cores: int
    analysis: Analysis
    clock: Callable[[], float]


def bench_on(
    spark: SparkSession, home: Home, pipeline: Pipeline, streams: Mapping[str, StreamRecord], cores: int, scratch: Path
) -> Bench:
    """``streams`` are those on record: a source is not asked for its schema where its stream has one already, so it
    need not be there. Raises DeclarationError for operators that do not build."""
    recorded = {name: StructType.fromJson(json.loads(record.schema)) for name, record in streams.items()}
    of_sources = {*pipeline.sources, *(name + REJECTED_SUFFIX for name in pipeline.sources)}
    schemas = {name: schema for name, schema in recorded.items() if name in of_sources}
    if not schemas.keys() >= pipeline.sources.keys():
        schemas = source_schemas(pipeline, spark) | schemas
    empty = scratch / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    return Bench(home, spark, cores, analyse(pipeline, spark, schemas, empty), time.time)


@contextmanager
def open_bench(
    home: Home, pipeline: Pipeline, streams: Mapping[str, StreamRecord], cores: int, scratch: Path
) -> Iterator[Bench]:
    """A bench with a Spark session that ends with it."""
    conf = {**pipeline.settings.spark, "spark.log.level": "ERROR"}
    spark = start_session("audit", cores=cores, conf=conf, scratch=scratch)
    try:
        yield bench_on(spark, home, pipeline, streams, cores, scratch)
    finally:
        spark.stop()


def with_partitions(bench: Bench, count: int) -> Bench:
    """The same bench, where a shuffle has ``count`` partitions, unless a stream declares another number."""
    spark = bench.spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", str(count))
    return replace(bench, spark=spark, cores=count)
