"""Safe points: write-once, a chain, fenced, and kept for as long as somebody needs them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Secured
from tests.keeper.place import Place, damage, epochs


def record(keeper: Keeper, epoch: int, on: int, by: Incarnation, mark: str = "a") -> Secured:
    return keeper.record_safe_point(
        "sums",
        EpochNumber(epoch),
        batch=epoch - 1,
        built_on=EpochNumber(on),
        manifest=f"sums/{epoch}-{mark}",
        checksum=mark,
        stores=("s1", "s2"),
        bytes=100,
        by=by,
    )


@pytest.fixture
def claimed(keeper: Keeper, me: Incarnation) -> Keeper:
    epochs(keeper, "sums", 8, me)
    return keeper


def test_safe_points_are_written_once_and_the_newest_is_read(claimed: Keeper, me: Incarnation) -> None:
    assert claimed.safe_point("sums") is None and claimed.safe_points("sums") == []
    first = record(claimed, 2, 0, me)
    assert first.won and first.newest.stores == ("s1", "s2") and first.newest.batch == 1
    assert record(claimed, 5, 2, me).won
    assert record(claimed, 2, 0, me).won, "a repeat, because the answer was lost"
    assert not record(claimed, 2, 0, me, "b").won
    assert not record(claimed, 5, 2, me, "b").won
    newest = claimed.safe_point("sums")
    assert newest is not None and (newest.epoch, newest.built_on, newest.checksum) == (5, 2, "a")
    assert [p.epoch for p in claimed.safe_points("sums")] == [2, 5]
    assert claimed.safe_points("others") == []


def test_who_lost_sight_of_the_newest_loses(claimed: Keeper, me: Incarnation) -> None:
    record(claimed, 2, 0, me)
    record(claimed, 3, 2, me)
    for epoch, on in ((4, 2), (4, 0), (1, 0), (1, 3), (3, 3)):
        lost = record(claimed, epoch, on, me, "b")
        assert not lost.won and lost.newest.epoch == 3
    assert [p.epoch for p in claimed.safe_points("sums")] == [2, 3]


def test_a_safe_point_needs_a_claim_and_a_predecessor(claimed: Keeper, me: Incarnation) -> None:
    with pytest.raises(BrokenInvariant, match="nobody claimed"):
        record(claimed, 9, 0, me)
    with pytest.raises(BrokenInvariant, match="never was"):
        record(claimed, 3, 2, me)
    assert claimed.safe_points("sums") == []


def test_a_fenced_incarnation_records_and_retires_nothing(claimed: Keeper, me: Incarnation) -> None:
    record(claimed, 2, 0, me)
    claimed.fence(me, "test")
    with pytest.raises(Fenced):
        record(claimed, 3, 2, me)
    with pytest.raises(Fenced):
        claimed.retire_safe_points("sums", keep=1, by=me)
    assert [p.epoch for p in claimed.safe_points("sums")] == [2]


def test_retiring_keeps_the_newest_and_the_pinned(claimed: Keeper, me: Incarnation) -> None:
    for epoch in range(1, 7):
        record(claimed, epoch, epoch - 1, me)
    claimed.pin("sums", EpochNumber(2), "a snapshot")
    claimed.pin("sums", EpochNumber(2), "a branch")
    claimed.pin("sums", EpochNumber(2), "a branch")
    claimed.pin("sums", EpochNumber(3), "a snapshot")
    assert claimed.pins("sums") == {2: ("a branch", "a snapshot"), 3: ("a snapshot",)}
    assert [p.epoch for p in claimed.retire_safe_points("sums", keep=2, by=me)] == [2, 3, 5, 6]
    claimed.unpin("sums", EpochNumber(2), "a branch")
    claimed.unpin("sums", EpochNumber(3), "a snapshot")
    claimed.unpin("sums", EpochNumber(3), "never pinned for that")
    assert [p.epoch for p in claimed.retire_safe_points("sums", keep=1, by=me)] == [2, 6]
    assert [p.epoch for p in claimed.safe_points("sums")] == [2, 6]
    with pytest.raises(BrokenInvariant, match=r"kept are \[2, 6\]"):
        claimed.pin("sums", EpochNumber(5), "too late")
    with pytest.raises(BrokenInvariant, match="always kept"):
        claimed.retire_safe_points("sums", keep=0, by=me)


def test_of_many_who_build_on_the_same_one_wins(place: Place, claimed: Keeper, me: Incarnation) -> None:
    start = threading.Barrier(4)
    answers: list[Secured] = []

    def propose(mark: int) -> None:
        keeper = place.open()
        start.wait()
        answers.append(record(keeper, 3 + mark, 0, me, str(mark)))

    threads = [threading.Thread(target=propose, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [a.newest for a in answers if a.won]
    assert {a.newest for a in answers} == {winner} and claimed.safe_points("sums") == [winner]


def test_a_damaged_record_is_named(tmp_path: Path, claimed: Keeper, me: Incarnation) -> None:
    record(claimed, 2, 0, me)
    damage(claimed, "UPDATE {}safe_points SET stores = '[]'")
    with pytest.raises(BrokenInvariant, match="safe point at epoch 2 of fragment 'sums' is damaged"):
        claimed.safe_point("sums")
