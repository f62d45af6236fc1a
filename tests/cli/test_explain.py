"""What explain shows of a pipeline."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.cli.explain import facts, lines
from rekindle.node.process import source_schemas
from rekindle.node.traits import analyse
from rekindle.recovery import ActiveStandby, Gap


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    pipeline = rk.Pipeline("p", recovery=ActiveStandby())
    pipeline.source("bids", rk.sources.Rate(10))

    @pipeline.stream
    def cleaned(bids: DataFrame) -> DataFrame:
        return bids.filter("value > 3")

    @pipeline.stream(output_mode="update", guarantee="precise")
    def counts(cleaned: DataFrame) -> DataFrame:
        return cleaned.groupBy("key").count()

    @pipeline.stream
    def stamped(counts: DataFrame) -> DataFrame:
        return counts.withColumn("id", F.expr("uuid()"))

    @pipeline.stream(recovery=Gap())
    def lossy(stamped: DataFrame) -> DataFrame:
        return stamped.select("key")

    pipeline.sink("lossy", rk.sinks.Foreach(print))
    pipeline.sink("stamped", rk.sinks.Foreach(print))
    folder: Path = tmp_path_factory.mktemp("explain")
    return facts(pipeline, analyse(pipeline, spark, source_schemas(pipeline, spark), folder))


def test_the_lines_say_what_is_fused_where_it_is_cut_and_why(found: dict[str, object]) -> None:
    text = "\n".join(lines(found))
    assert "operators: cleaned -> counts" in text
    assert "counts keeps state: an aggregate" in text
    assert "cut here: stateful, and stamped after it is not deterministic" in text
    assert "guarantee: precise (not deterministic: logged once, never recomputed)" in text
    assert "guarantee: at-least-once" in text


def test_the_facts_are_json(found: dict[str, object]) -> None:
    again = orjson.loads(orjson.dumps(found))
    assert [f["fragment"] for f in again["fragments"]] == ["counts", "stamped", "lossy"]
    cleaned = {"fragment": "counts", "published": False, "guarantee": "precise", "declared_guarantee": None}
    assert again["streams"]["cleaned"] == cleaned
    assert again["fragments"][0]["runs_as"] == "a streaming query with state in rocksdb"
    assert __file__ in again["sinks"][0]["declared"]


def test_policies_guarantees_and_the_nodes_that_host_replicas(found: dict[str, object]) -> None:
    again = orjson.loads(orjson.dumps(found))
    counts, _, lossy = again["fragments"]
    assert (counts["nodes"], counts["guarantee"]) == (["main", "main.2"], "precise")
    assert (lossy["nodes"], lossy["guarantee"]) == (["main", "main.2"], "at-most-once")
    assert again["sources"][0]["nodes"] == again["sinks"][0]["nodes"] == ["main", "main.2"]
    assert {s["sink"]: s["guarantee"] for s in again["sinks"]} == {
        "lossy_sink": "may lose and may repeat",
        "stamped_sink": "at-least-once",
    }
    assert again["streams"]["counts"]["declared_guarantee"] == "precise"
    text = "\n".join(lines(found))
    assert "recovery: active standby, 2 replicas" in text
    assert "output mode update, nodes main, main.2" in text
    assert "guarantee: may lose and may repeat" in text
