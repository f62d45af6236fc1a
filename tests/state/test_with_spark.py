"""The four primitives on a real query: what was backed up while it ran goes on with the right totals, also over another
number of partitions.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from rekindle.errors import BrokenInvariant
from rekindle.home import create_or_open
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation
from rekindle.node.session import STATE_PROVIDERS
from rekindle.state import checkpoint
from rekindle.state.backup import Backup
from rekindle.state.layers import capture, layer_of
from rekindle.state.partition import partitions, repartition
from rekindle.state.restore import restore
from rekindle.state.stores import Store
from tests.state.paper import contents
from tests.state.test_inbox_and_checkpoint import Query, claims_of, expected, published

SNAPSHOTS = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
MAINTENANCE = "spark.sql.streaming.stateStore.maintenanceInterval"


class Observed(Query):
    """A query whose epochs are offered to a backup as they are committed."""

    backup: Backup

    def show(self, epoch: int) -> None:
        # Spark's batch before this one is committed: its own thread shows the next claim.
        self.backup.offer(EpochNumber(epoch - 2))
        if epoch in (6, 11):
            assert self.backup.wait(EpochNumber(epoch - 2), 60), "it ships while the query is in the middle of a batch"
        super().show(epoch)


def after(first: int, last: int) -> dict[int, dict[int, int]]:
    return {e: rows for e, rows in expected(last).items() if e >= first}


def test_backed_up_while_it_runs_restored_repartitioned_and_continued(
    spark: SparkSession, tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]
) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    claim = claims_of(home, 30)
    own = spark.newSession()
    for name, value in ((SNAPSHOTS, "3"), (MAINTENANCE, "300ms")):
        own.conf.set(name, value)
    first = Observed(own, tmp_path / "first", home, claim)
    checkpoint.create(first.checkpoint, EpochNumber(0))
    first.backup = Backup("sums", first.checkpoint, stores, 2, keeper, me, scratch=tmp_path / "scratch", keep=100)
    first.backup.start()
    assert first.run(1, 14) == after(1, 14)
    first.backup.offer(EpochNumber(14))
    assert first.backup.wait(EpochNumber(14), 60)
    first.backup.close()
    points = keeper.safe_points("sums")
    assert points[-1].epoch == 14 and len(points) > 2, "it shipped while the query ran"

    (tmp_path / "store1").rename(tmp_path / "gone")
    for point in points:
        target = tmp_path / f"at{point.epoch}"
        assert restore("sums", point.epoch, stores, keeper, target) == checkpoint.Standing(point.batch, point.epoch)
    middle = points[len(points) // 2].epoch
    second = Query(spark, tmp_path / "second", home, claim)
    checkpoint.fork(tmp_path / f"at{middle}", second.checkpoint)
    assert second.run(middle + 1, middle + 2) == after(middle + 1, middle + 2)

    # 2 -> 5 -> 1 partitions, with epochs between, each from a fork of the one before.
    standing = checkpoint.Standing(13, EpochNumber(14))
    origin = tmp_path / "at14"
    seen: dict[int, dict[int, int]] = {}
    assert partitions(origin) == 2
    for drift, (count, last) in enumerate(((5, 17), (1, 26)), 1):
        query = Query(spark, tmp_path / f"over{count}", home, claim)
        checkpoint.fork(origin, query.checkpoint)
        before = standing
        standing = repartition(spark, query.checkpoint, count)
        assert standing == checkpoint.Standing(before.batch + 1, before.epoch)
        assert repartition(spark, query.checkpoint, count) == standing, "nothing to do"
        assert query.run(before.epoch + 1, last) == after(before.epoch + 1, last)
        seen |= query.seen
        standing = checkpoint.standing(query.checkpoint)
        assert standing == checkpoint.Standing(last - 1 + drift, EpochNumber(last))
        assert partitions(query.checkpoint) == count
        origin = query.checkpoint
    assert seen == after(15, 26)

    # What was repartitioned is backed up and restored like any other.
    (tmp_path / "gone").rename(tmp_path / "store1")
    shipped = Backup("sums", origin, stores, 2, keeper, me, scratch=tmp_path / "scratch").ship()
    assert shipped is not None and (shipped.epoch, shipped.batch) == (26, 27)
    third = Query(spark, tmp_path / "third", home, claim)
    restore("sums", None, stores, keeper, third.checkpoint)
    state = [path for path in contents(third.checkpoint) if path.startswith("state/0/")]
    assert {path.split("/")[2] for path in state} == {"0", "_metadata"}
    assert {".zip", ".sst", ".changelog"} <= {Path(path).suffix for path in state}
    assert third.run(27, 30) == after(27, 30)


def test_state_in_memory_is_backed_up_while_it_runs_restored_and_continued(
    spark: SparkSession, tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]
) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    claim = claims_of(home, 17)
    own = spark.newSession()
    provider = "spark.sql.streaming.stateStore.providerClass"
    own.conf.set(provider, STATE_PROVIDERS["memory"])
    first = Observed(own, tmp_path / "first", home, claim)
    checkpoint.create(first.checkpoint, EpochNumber(0))
    first.backup = Backup("sums", first.checkpoint, stores, 2, keeper, me, scratch=tmp_path / "scratch", keep=100)
    first.backup.start()
    assert first.run(1, 14) == after(1, 14)
    first.backup.offer(EpochNumber(14))
    assert first.backup.wait(EpochNumber(14), 60)
    first.backup.close()
    kinds = {Path(path).suffix for path in contents(first.checkpoint) if path.startswith("state/0/0/")}
    assert ".delta" in kinds and not kinds & {".zip", ".sst", ".changelog"}

    points = keeper.safe_points("sums")
    assert len(points) > 2, "it shipped while the query ran"
    for point in (points[len(points) // 2], points[-1]):
        query = Query(own, tmp_path / f"from{point.epoch}", home, claim)
        restore("sums", point.epoch, stores, keeper, query.checkpoint)
        assert query.run(point.epoch + 1, 17) == after(point.epoch + 1, 17)


class Total(StatefulProcessor):
    """The sum of each key, in a state of the user's own."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._total = handle.getValueState("total", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        before = self._total.get()
        total = (before[0] if before else 0) + sum(int(frame["v"].sum()) for frame in rows)
        self._total.update((total,))
        yield pd.DataFrame({"k": [key[0]], "total": [total]})

    def close(self) -> None:
        pass


class Totals(Query):
    def result(self, frames: list[DataFrame]) -> DataFrame:
        keyed = frames[0].union(frames[1]).groupBy("k")
        return keyed.transformWithStateInPandas(Total(), "k long, total long", "Update", "None")


def test_a_state_of_the_users_own_goes_on_when_all_earlier_checkpoints_are_gone(
    spark: SparkSession, tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]
) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    claim = claims_of(home, 9)
    query = Totals(spark, tmp_path / "q0", home, claim)
    checkpoint.create(query.checkpoint, EpochNumber(0))
    seen = query.run(1, 3)
    for generation in (1, 2):
        following = Totals(spark, tmp_path / f"q{generation}", home, claim)
        checkpoint.fork(query.checkpoint, following.checkpoint)
        shutil.rmtree(query.root)
        query = following
        seen |= query.run(2 * generation + 2, 2 * generation + 3)
    assert Backup("sums", query.checkpoint, stores, 2, keeper, me, scratch=tmp_path / "scratch").ship() is not None
    shutil.rmtree(query.root)
    elsewhere = Totals(spark, tmp_path / "elsewhere", home, claim)
    restore("sums", None, stores, keeper, elsewhere.checkpoint)
    assert seen | elsewhere.run(8, 9) == after(1, 9)
    described = [path.read_text() for path in elsewhere.checkpoint.glob("state/*/_metadata/v2/[0-9]*")]
    assert described and all(f"file:{elsewhere.checkpoint}/state/0/_stateSchema/" in text for text in described)


def test_a_capture_of_real_state_has_snapshots_and_what_they_share(spark: SparkSession, tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    own = spark.newSession()
    own.conf.set(SNAPSHOTS, "2")
    query = Query(own, tmp_path / "q", home, claims_of(home, 4))
    checkpoint.create(query.checkpoint, EpochNumber(0))
    query.run(1, 4)
    repartition(spark, query.checkpoint, 3)
    assert capture(query.checkpoint, tmp_path / "captured") == checkpoint.Standing(4, EpochNumber(4))
    layer = layer_of(tmp_path / "captured", EpochNumber(4), {})
    kinds = {Path(entry.path).suffix for entry in layer.needed if entry.path.startswith("state/0/0/")}
    assert kinds == {".zip", ".sst", ""} and {"state-0-0", "state-0-1", "state-0-2"} < layer.parts().keys()


def test_a_checkpoint_that_cannot_be_repartitioned_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint.create(tmp_path / "c", EpochNumber(3))
    assert repartition(spark, tmp_path / "c", 4) == checkpoint.Standing(-1, EpochNumber(3))
    assert partitions(tmp_path / "c") is None
    with pytest.raises(BrokenInvariant, match="0 partitions"):
        repartition(spark, tmp_path / "c", 0)
    (tmp_path / "c" / "commits").mkdir()
    (tmp_path / "c" / "offsets").mkdir()
    described = 'v1\n{"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"logOffset":%d}'
    for batch in (0, 1):
        (tmp_path / "c" / "offsets" / str(batch)).write_text(described % batch)
    (tmp_path / "c" / "commits" / "0").write_text("v1\n{}")
    with pytest.raises(BrokenInvariant, match="batch 1 of the checkpoint is not committed"):
        repartition(spark, tmp_path / "c", 4)


def test_a_join_over_named_stores_goes_on_from_its_backup(
    spark: SparkSession, tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]
) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    made = {
        e: {"a": [published(home, "a", e, [(e, e)])], "b": [published(home, "b", e, [(e - 1, 10 * e)])]}
        for e in range(1, 6)
    }

    class Join(Query):
        def result(self, frames: list[DataFrame]) -> DataFrame:
            left, right = frames[0].dropDuplicates(["k"]), frames[1].withColumnRenamed("v", "total")
            return left.join(right, "k")

        output_mode = "append"

    first = Join(spark, tmp_path / "first", home, made.__getitem__)
    checkpoint.create(first.checkpoint, EpochNumber(0))
    first.run(1, 3)
    assert Backup("sums", first.checkpoint, stores, 2, keeper, me, scratch=tmp_path / "scratch").ship() is not None
    second = Join(spark, tmp_path / "second", home, made.__getitem__)
    restore("sums", None, stores, keeper, second.checkpoint)
    depths = {path.count("/") for path in contents(second.checkpoint) if path.endswith(".changelog")}
    assert depths == {3, 4}
    assert first.seen | second.run(4, 5) == {1: {}, **{e: {e - 1: 10 * e} for e in range(2, 6)}}
