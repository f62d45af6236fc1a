"""Sweeping up what was written and never published."""

from __future__ import annotations

from pathlib import Path

from rekindle.home import create_or_open
from rekindle.keeper.records import Incarnation
from rekindle.streams.writer import sweep


def test_only_what_nobody_can_publish_any_more_is_removed(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    folder = home.streams / "counts"
    dead = ["000000000003-1-1", "000000000004-1-1"]
    kept = ["000000000002-1-1", "000000000003-2-1", "000000000004-3-1", "000000000004-5-1", "000000000004-6-1"]
    for name in [*dead, *kept, "notes-by-hand"]:
        (folder / name).mkdir(parents=True)
    published = frozenset({"streams/counts/000000000003-2-1"})
    over = frozenset({Incarnation(1), Incarnation(2)})
    assert sweep(home, "counts", 3, published, over=over) == 2
    assert sorted(entry.name for entry in folder.iterdir()) == [*kept, "notes-by-hand"]
