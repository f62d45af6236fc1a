"""What of a Rekindle home goes with a machine, and what stays."""

from __future__ import annotations

from pathlib import Path

from bench.peers.base import Place
from bench.peers.rekindle import Pipeline, Rekindle
from rekindle.home import create_or_open
from rekindle.keeper.records import Incarnation


def test_only_the_checkpoints_of_the_dead_are_lost(tmp_path: Path) -> None:
    place = Place(tmp_path / "run", tmp_path / "in", 1)
    home = create_or_open(place.run / "home", "counted", None)
    for folder in ("counts/3-0", "counts/3-1", "counts/13-0", "counts/4-0"):
        (home.work / folder / "checkpoint").mkdir(parents=True)
    (home.streams / "counts").mkdir()
    peer = Rekindle("rekindle", place, Pipeline(Path("it.py"), "counts", "rollback", {}))
    peer._killed.add(Incarnation(3))
    peer.lose_disk()
    assert sorted(folder.name for folder in (home.work / "counts").iterdir()) == ["13-0", "4-0"]
    assert (home.streams / "counts").exists()
    kinds = peer.recovery_bytes()
    assert list(kinds) == ["streams", "checkpoints", "layers", "keeper"]
