"""A node's share of the processor goes down and up again, where the system knows of such a thing."""

from __future__ import annotations

from pathlib import Path

from rekindle.node.courtesy import LOW, Courtesy


def test_it_goes_down_and_up_again_once(tmp_path: Path) -> None:
    file = tmp_path / "autogroup"
    courtesy = Courtesy(file)
    courtesy.take_part()
    assert not file.exists()
    courtesy.yield_to_others()
    assert file.read_text() == str(LOW)
    courtesy.take_part()
    assert file.read_text() == "0"
    file.unlink()
    courtesy.take_part()
    assert not file.exists()


def test_where_there_is_no_such_thing_nothing_happens(tmp_path: Path) -> None:
    courtesy = Courtesy(tmp_path / "missing" / "autogroup")
    courtesy.yield_to_others()
    courtesy.take_part()
