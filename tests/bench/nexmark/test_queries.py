"""Each query: what Spark makes of it against the same computed row by row, when its output comes, and its pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from bench._place import Place, environment
from bench._workload import Numbers, Scale, Step, Workload
from bench.nexmark import generator
from bench.nexmark.compare import difference, plain, rekindle, settled, small
from bench.nexmark.workload import WORKLOADS
from rekindle.load import load_pipeline
from rekindle.node.process import source_schemas
from rekindle.node.traits import Analysis, analyse
from rekindle.plan import check
from tests.bench.nexmark.oracle import ANSWERS

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(240)]

FILES, FILE_ROWS = 8, 2_000
RATE = 400
LAST = FILES * FILE_ROWS - 1
QUERIES: Mapping[str, Workload] = {
    w.parameters["query"]: small(w, FILE_ROWS).with_parameters(
        rate=RATE, people_active=50, open_s=3, **({"gap_s": 1} if "gap_s" in w.parameters else {})
    )
    for w in WORKLOADS
}
DETERMINED = [name for name in QUERIES if name != "q12"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    made(folder, *generator.INPUTS)
    return folder


def made(folder: Path, *inputs: str) -> list[Step]:
    every = replace(QUERIES["q0"], inputs={name: generator.INPUTS[name] for name in inputs})
    return small(every, FILE_ROWS).make(folder, Scale(FILES), QUERIES["q0"].parameters)


def answer(name: str) -> pa.Table:
    """The output by the oracle."""
    tables = generator.rows(0, LAST + 1, QUERIES[name].parameters)
    found = ANSWERS[name]({kind: table.to_pylist() for kind, table in tables.items()}, QUERIES[name].parameters)
    assert found
    return pa.Table.from_pylist([{column: row[column] for column in QUERIES[name].names} for row in found])


def same(one: pa.Table, other: pa.Table) -> bool:
    return sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist()))


def causes(workload: Workload, output: pa.Table) -> Numbers:
    assert workload.cause is not None
    return workload.cause(output, workload.parameters)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One whose queries end with a batch without rows, as plain Spark's do."""
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    own.conf.set("spark.sql.shuffle.partitions", "1")
    return own


@pytest.mark.parametrize("name", DETERMINED)
def test_a_batch_job_gives_what_the_query_means(name: str, session: SparkSession, source: Path) -> None:
    workload = QUERIES[name]
    frames = {i: session.read.schema(schema).parquet(str(source / i)) for i, schema in workload.inputs.items()}
    assert workload.query is not None
    found = workload.query(frames, workload.parameters)
    assert (
        found.select(workload.names).schema.simpleString()
        == session.createDataFrame([], workload.columns).schema.simpleString()
    )
    assert same(found.select(workload.names).toArrow(), answer(name))
    keys = found.toArrow().select(list(workload.key)).group_by(list(workload.key)).aggregate([])
    assert keys.num_rows == found.count()


@pytest.mark.parametrize("name", ["q4", "q8", "q11", "q19"])
def test_a_streaming_query_gives_what_has_closed_by_its_cause(
    name: str, session: SparkSession, source: Path, tmp_path: Path
) -> None:
    """That is all whose cause has arrived, and nothing else."""
    workload = QUERIES[name]
    expected = answer(name)
    closed = expected.filter(pa.array(causes(workload, expected) <= LAST))
    assert closed.num_rows > 0
    assert closed.num_rows < expected.num_rows or workload.mode == "update"
    assert same(plain(session, workload, source, tmp_path), closed)


def test_bids_counted_by_the_clock_are_checked(session: SparkSession, source: Path, tmp_path: Path) -> None:
    workload = QUERIES["q12"]
    assert workload.check is not None
    steps = made(tmp_path / "in", "bid")
    output = plain(session, workload, source, tmp_path / "checkpoint")
    assert workload.check(steps, output, workload.parameters) == ""
    assert "last bid" in workload.check(
        steps, output.set_column(3, "seq", pa.array(output["seq"].to_numpy() - 1)), workload.parameters
    )
    more = output.set_column(2, "n", pa.array(np.where(np.arange(len(output)) == 3, 9_999, output["n"].to_numpy())))
    assert "1 people's bids were not counted once" in workload.check(steps, more, workload.parameters)
    without = output.filter(pc.not_equal(output["bidder"], generator.FIRST_ID))
    assert "people made bids" in workload.check(steps, without, workload.parameters)


def test_in_update_mode_the_newest_row_of_a_key_counts() -> None:
    workload = replace(QUERIES["q18"], columns="bidder long, auction long, seq long")
    rows = [(1, 1, 5), (1, 2, 6), (1, 1, 9), (1, 1, 7)]
    given = pa.table({name: [row[i] for row in rows] for i, name in enumerate(workload.names)})
    assert settled(workload, given)["seq"].to_pylist() == [9, 6]
    assert difference(workload, (), given, given) == ""
    assert "only in the first: [\"{'bidder': 1, 'auction': 1, 'seq': 5}\"]" in difference(
        workload, (), given, given.slice(1)
    )


@pytest.mark.parametrize("name", QUERIES)
def test_its_pipeline_is_cut_into_as_many_fragments_as_it_needs(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = QUERIES[name]
    analysis = analysed(workload, spark, tmp_path, monkeypatch)
    fragments = {f.name: f for f in analysis.fragments}
    assert list(fragments) == (["clocked", "q12"] if name == "q12" else [name])
    assert fragments[name].stateful == (name not in ("q0", "q1", "q2"))
    assert fragments[name].deterministic
    assert fragments[name].output_mode == workload.mode
    assert analysis.schemas[name].simpleString() == spark.createDataFrame([], workload.columns).schema.simpleString()
    if name == "q12":
        assert not fragments["clocked"].deterministic and not fragments["clocked"].stateful


@pytest.mark.parametrize("clock", ["row", "batch"])
def test_the_clock_is_known_not_to_be_deterministic(
    clock: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = analysed(QUERIES["q12"].with_parameters(clock=clock), spark, tmp_path, monkeypatch)
    assert len(analysis.traits["clocked"].nondeterministic) == 1
    assert analysis.traits["q12"].nondeterministic == ()


def analysed(workload: Workload, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Analysis:
    place = Place(folder / "in", folder / "out", "rollback", None, 1000, workload.parameters)
    for key, value in environment(place).items():
        monkeypatch.setenv(key, value)
    pipeline = load_pipeline(workload.pipeline)
    check(pipeline)
    assert list(pipeline.sources) == list(workload.inputs)
    assert workload.stream in {sink.stream for sink in pipeline.sinks.values()}
    return analyse(pipeline, spark, source_schemas(pipeline, spark), folder)


@pytest.mark.processes
def test_rekindle_gives_what_has_closed(source: Path, tmp_path: Path) -> None:
    workload = QUERIES["q7"]
    expected = answer("q7")
    closed = expected.filter(pa.array(causes(workload, expected) <= LAST))
    assert same(rekindle(workload, source, tmp_path / "run"), closed)


def test_every_parameter_of_the_query_for_flink_is_filled_in() -> None:
    for workload in QUERIES.values():
        assert workload.flink is not None
        said = workload.flink
        for name, value in workload.parameters.items():
            said = said.replace(f"{{{name}}}", str(value))
        assert "{" not in said
