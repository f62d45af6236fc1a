"""A peer's life: started on its cores, found by its mark, killed, ended; what it shows is kept."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.peers.base import PeerFailed, Place, folder_bytes, marked, on_cores
from tests.bench.fakes import Copier
from tests.bench.workloads import numbered


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "source" / "rows").mkdir(parents=True)
    return Place(tmp_path / "run", tmp_path / "source", 1)


def put(place: Place, name: str, first: int, count: int) -> None:
    hidden = place.source / name
    pq.write_table(numbered(first, count), hidden)
    hidden.rename(place.source / "rows" / name)


def test_what_it_shows_is_seen_once_and_kept_when_it_is_gone(place: Place) -> None:
    with Copier(place) as peer:
        put(place, "a", 0, 5)
        until(lambda: peer.look().all)
        peer.look()
        (shown,) = peer.sight.all
        assert (shown.name, shown.rows, [o.rows for o in peer.outputs()]) == ("out=a", 5, [5])
        (place.source / "rows" / "a").unlink()
        assert peer.gone() == []
        shutil.rmtree(place.run / "output" / "out=a")
        assert peer.gone() == ["out=a"] and list(peer.results()) == []
        assert pq.read_table(shown.kept[0]).equals(numbered(0, 5))


def test_it_is_killed_with_all_it_started_and_ended_in_the_end(place: Place) -> None:
    with Copier(place) as peer:
        (process,) = peer.processes()
        assert process.cpu_affinity() == sorted(os.sched_getaffinity(0))[:1]
        assert peer.redundant()
        peer.kill()
        assert not peer.redundant()
        until(lambda: peer.check() is None and peer.redundant())
        assert [again.pid for again in peer.processes()] != [process.pid]
    assert marked(peer.mark) == []


def test_one_that_does_not_start_is_not_left_behind(place: Place) -> None:
    class Failing(Copier):
        def start(self) -> None:
            super().start()
            raise PeerFailed("no")

    peer = Failing(place)
    with pytest.raises(PeerFailed), peer:
        pytest.fail("it was not started")
    assert marked(peer.mark) == []


def test_our_own_cores_are_as_before() -> None:
    before = os.sched_getaffinity(0)
    with on_cores(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    (tmp_path / "folder").mkdir()
    os.link(tmp_path / "a", tmp_path / "folder" / "b")
    (tmp_path / "folder" / "c").write_bytes(b"x" * 7)
    assert folder_bytes(tmp_path) == 107
