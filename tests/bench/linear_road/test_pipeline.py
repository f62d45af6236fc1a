"""The whole query on Spark against the oracle: over a few epochs, as streaming queries with state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.linear_road import pipeline as declared
from bench.linear_road.generate import Traffic
from bench.linear_road.judge import compare, found_in
from bench.linear_road.oracle import FIELDS
from bench.linear_road.packing import labels, spark_hash
from bench.linear_road.staging import stage
from bench.linear_road.world import INPUT, OUTPUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.long, pytest.mark.spark]

TRAFFIC = Traffic(expressways=2, seconds=150, from_minute=90, seed=2)


def test_the_hash_is_sparks(spark: SparkSession) -> None:
    values = [0, 1, 2, 3, 17, 1000, 2**31 - 1]
    told = spark.createDataFrame([(v,) for v in values], "v int").selectExpr("v", "hash(v) AS h").collect()
    assert {row["v"]: row["h"] for row in told} == {v: spark_hash(v) for v in values}


@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_every_part_has_a_partition_of_its_own(parts: int) -> None:
    assert sorted(spark_hash(label) % parts for label in labels(parts)) == list(range(parts))


def test_it_is_two_fragments_one_state_each(spark: SparkSession, tmp_path: Path) -> None:
    from rekindle.node.traits import analyse

    reports, answers = (spark.createDataFrame([], of).schema for of in (INPUT, OUTPUT))
    analysis = analyse(declared.pipeline, spark, {"reports": reports}, tmp_path)
    assert [(f.name, f.inputs, f.stateful, f.deterministic) for f in analysis.fragments] == [
        ("toll_calculator", ("reports",), True, True),
        ("collector", ("toll_calculator",), True, True),
    ]
    assert analysis.schemas["collector"] == answers
    assert set(declared.pipeline.streams) == {
        "forwarder", "toll_calculator", "accident_notification", "toll_assessment", "balance_account",
        "daily_expenditure", "collector",
    }  # fmt: skip


def test_every_answer_is_the_oracles(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = stage(tmp_path, TRAFFIC, warm_s=148, say=lambda _: None)
    monkeypatch.setattr(declared, "expressways", TRAFFIC.expressways)
    values = {**declared.place.parameters, "history": str(staged.store)}
    monkeypatch.setattr(declared, "place", Place(values))
    files = len(staged.warm) + len(staged.paced)

    reports = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 6).parquet(str(tmp_path / "staged"))
    road = declared.toll_calculator(declared.forwarder(reports))
    batches = run(road, tmp_path / "road", tmp_path / "first")
    assert batches == -(-files // 6) > 2
    said = spark.readStream.schema(road.schema).option("maxFilesPerTrigger", 4).parquet(str(tmp_path / "road/*"))
    balances = declared.balance_account(declared.toll_assessment(said))
    rest = (said, declared.accident_notification(said), balances, declared.daily_expenditure(said))
    assert run(declared.collector(*rest), tmp_path / "out", tmp_path / "second") > 1

    found = found_in(tmp_path / "out")
    for kind in FIELDS:
        assert str(compare(kind, found.rows[kind], staged.answers[kind])).endswith(" right")
        assert len(staged.answers[kind]) > 20
    assert (found.rows[2][:, 3] > 0).any() and (found.rows[0][:, 3] > 0).any()


class Place:
    def __init__(self, parameters: Mapping[str, object]) -> None:
        self.parameters = parameters


def run(frame: DataFrame, output: Path, checkpoint: Path) -> int:
    """All there is, a folder of files an epoch; returns how many there were."""
    batches = []

    def batch(rows: DataFrame, number: int) -> None:
        rows.write.parquet(str(output / f"epoch={number:012d}"))
        batches.append(number)

    query = frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(batch)
    started = query.trigger(availableNow=True).start()
    started.awaitTermination()
    return len(batches)
