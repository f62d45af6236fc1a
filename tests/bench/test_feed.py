"""Input arrives in order, whole, and it is known when."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench._feed import Feed, stage
from bench._workload import Scale
from tests.bench.workloads import AS_IT_IS, numbered


def test_files_arrive_under_their_inputs_names(tmp_path: Path) -> None:
    staged = stage(AS_IT_IS, Scale(3), tmp_path / "staged")
    feed = Feed(AS_IT_IS.inputs, tmp_path / "source")
    feed.add(staged.steps[:2])
    names = sorted(path.name for path in (tmp_path / "source" / "rows").iterdir())
    assert names == ["000000.parquet", "000001.parquet"]
    assert pq.read_table(tmp_path / "source" / "rows" / "000001.parquet").equals(numbered(10, 10))
    assert (feed.rows, staged.rows, len(feed.arrived)) == (20, 30, 2)


def test_at_a_pace_all_comes_in_order(tmp_path: Path) -> None:
    staged = stage(AS_IT_IS, Scale(4, pace_s=0.01), tmp_path / "staged")
    feed = Feed(AS_IT_IS.inputs, tmp_path / "source")
    feed.start(staged.steps)
    feed.join()
    assert feed.is_over and feed.arrived == sorted(feed.arrived)
    assert [step.through for step in feed.steps] == [0, 1, 2, 3]


def test_what_a_feed_raises_is_not_lost(tmp_path: Path) -> None:
    staged = stage(AS_IT_IS, Scale(2, pace_s=0.01), tmp_path / "staged")
    feed = Feed(AS_IT_IS.inputs, tmp_path / "source")
    feed.add(staged.steps[:1])
    feed.start(staged.steps)  # the first file is there already
    with pytest.raises(FileExistsError):
        feed.join()
