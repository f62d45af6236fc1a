"""Plain Spark's parent and its outputs, with a script in its place."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.peers.base import Peer, PeerFailed, Place, marked
from bench.peers.spark import Spark, workload_query
from tests.bench.workloads import numbered

WAITING = "import time; time.sleep(600)"


class Fake(Spark):
    script = WAITING

    def _command(self) -> list[str]:
        return [sys.executable, "-I", "-c", self.script]


def checked_until(peer: Peer) -> None:
    """Until the check raises."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        peer.check()
        time.sleep(0.01)


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.fixture
def spark(tmp_path: Path) -> Fake:
    return Fake("spark", Place(tmp_path / "run", tmp_path / "in", 1), [])


def show(spark: Spark, batch: int, first: int, count: int) -> None:
    """As Spark does: the files first, then _SUCCESS."""
    folder = spark.output / f"batch={batch:06d}"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    pq.write_table(numbered(first, count), folder / f"part-{first}-{count}.parquet")
    (folder / "_SUCCESS").touch()


def test_files_count_once_they_are_in_a_committed_batch(spark: Fake) -> None:
    checkpoint = spark.run / "checkpoint"
    for folder in ("commits", "offsets", "sources/0", "sources/1"):
        (checkpoint / folder).mkdir(parents=True)
    assert spark.has_taken(0) and not spark.has_taken(1)

    def planned(batch: int, source: int, *names: str, log: str = "") -> None:
        (checkpoint / "offsets" / str(batch)).touch()
        lines = ["v1", *(json.dumps({"path": name, "batchId": batch}) for name in names)]
        (checkpoint / "sources" / str(source) / (log or str(batch))).write_text("\n".join(lines))

    planned(0, 0, "a", "b")
    assert not spark.has_taken(2)
    (checkpoint / "commits" / "0").touch()
    assert spark.has_taken(2) and not spark.has_taken(3)
    planned(1, 1, "c")
    planned(1, 0, "a", "b", "d", log="1.compact")
    assert not spark.has_taken(2), "the batch under way may still fail"
    (checkpoint / "commits" / "1").touch()
    assert spark.has_taken(4) and not spark.has_taken(5)


def test_what_was_killed_is_started_again_by_its_parent(spark: Fake) -> None:
    with spark:
        until(spark.redundant)
        before = [process.pid for process in spark.processes()]
        spark.kill()
        until(lambda: spark.redundant() and spark.processes())
        spark.check()
        assert [process.pid for process in spark.processes()] != before
    assert marked(spark.mark) == []


def test_one_that_ends_by_itself_has_failed_and_is_not_started_again(spark: Fake) -> None:
    spark.script = "raise SystemExit('no Java')"
    with spark, pytest.raises(PeerFailed, match="spark ended by itself\nno Java"):
        checked_until(spark)


def test_a_batch_is_there_when_spark_says_so(spark: Fake) -> None:
    spark.run.mkdir()
    show(spark, 0, 0, 5)
    (spark.output / "batch=000000" / "_SUCCESS").unlink()
    assert spark.outputs() == []
    (spark.output / "batch=000000" / "_SUCCESS").touch()
    show(spark, 1, 5, 3)
    assert [output.rows for output in spark.outputs()] == [5, 3]


def test_a_batch_that_runs_again_is_seen_again_and_replaces_what_was_there(spark: Fake) -> None:
    spark.run.mkdir()
    show(spark, 0, 0, 5)
    spark.look()
    show(spark, 0, 0, 4)
    assert [(shown.name, shown.rows) for shown in spark.look().all] == [("batch=000000", 5), ("batch=000000", 4)]
    assert [output.rows for output in spark.outputs()] == [5]  # nothing new came out
    assert [table.num_rows for table in spark.results()] == [4]
    assert [pq.read_metadata(shown.kept[0]).num_rows for shown in spark.sight.all] == [5, 4]


def test_a_workload_is_named_on_the_command_line(tmp_path: Path) -> None:
    query = workload_query("wordcount", {"rate": 5}, tuned=True)
    command = Spark("spark_tuned", Place(tmp_path / "run", tmp_path / "in", 2, files_max=4), query)._command()
    assert json.loads(command[command.index("--parameters") + 1]) == {"rate": 5}
    assert "--tuned" in command and command[command.index("--files-per-batch") + 1] == "4"
    assert "--tuned" not in workload_query("wordcount", {}, tuned=False)
