"""The picture: where its bars and its pause are."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import _picture as picture
from bench._pauses import ACTIVE, PLAIN, Pause, Run

PAUSE = Pause(6.0, 1.0, 5.5, 5.0, ((-2.5, 10), (-1.5, 10), (-0.5, 20), (5.5, 30), (6.5, 10)))


def test_a_bar_lasts_to_the_next_output_but_not_into_a_pause() -> None:
    assert picture.bars(PAUSE) == [(-2.5, 1.0, 10.0), (-1.5, 1.0, 10.0), (-0.5, 1.0, 20.0), (5.5, 1.0, 30.0)]


def test_the_pause_is_where_it_was() -> None:
    assert picture.longest_gap(PAUSE) == (-0.5, 5.5)


@pytest.mark.parametrize(("lengths", "typical"), [([3.0], 3.0), ([9.0, 1.0, 2.0], 2.0), ([1.0, 4.0], 1.0)])
def test_the_kill_in_the_middle_is_shown(lengths: list[float], typical: float) -> None:
    chosen = picture.typical([Pause(length, 1.0, length, 1.0) for length in lengths])
    assert chosen is not None and chosen.pause_s == typical


def test_it_is_drawn_with_what_there_is(tmp_path: Path) -> None:
    runs = [Run(PLAIN, 10, 1, pauses=(PAUSE,)), Run(PLAIN, 20, 1, pauses=(PAUSE,)), Run(ACTIVE, 20, 1, failed="died")]
    picture.draw([*runs, Run(ACTIVE, 10, 1, pauses=(PAUSE,))], tmp_path / "it.png")
    assert (tmp_path / "it.png").stat().st_size > 10_000
    picture.draw([], tmp_path / "nothing.png")
    assert not (tmp_path / "nothing.png").exists()
