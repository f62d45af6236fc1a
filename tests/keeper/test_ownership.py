"""Ownership: one at a time, handed over by the fence alone; and the promotion of a warm node."""

from __future__ import annotations

import threading

import pytest

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper import Keeper
from rekindle.keeper.records import EMPTY_DIGEST, EpochNumber, Incarnation, Output, Span
from tests.keeper.place import Place, epochs, output, stream


def test_the_first_who_asks_owns_and_stays_the_owner(keeper: Keeper, me: Incarnation) -> None:
    other = keeper.enlist("n2", code="c")
    mine = keeper.own("rows", by=me)
    assert (mine.incarnation, mine.live, mine.before) == (me, True, None)
    assert keeper.own("rows", by=other).incarnation == me
    assert keeper.own("rows", by=me).before is None, "a repeat"
    assert keeper.own("sink", by=other).incarnation == other, "each subject has an owner of its own"
    assert {name: owner.incarnation for name, owner in keeper.owners().items()} == {"rows": me, "sink": other}


@pytest.mark.parametrize("end", ["fence", "leave", "enlist"])
def test_who_is_no_longer_live_is_followed_by_the_first_who_asks(keeper: Keeper, me: Incarnation, end: str) -> None:
    other, third = keeper.enlist("n2", code="c"), keeper.enlist("n3", code="c")
    keeper.own("rows", by=me)
    if end == "fence":
        keeper.fence(me, "dead")
    elif end == "leave":
        keeper.leave(me)
    else:
        keeper.enlist("n1", code="c")
    assert not keeper.owners()["rows"].live
    taken = keeper.own("rows", by=other)
    assert (taken.incarnation, taken.before) == (other, me)
    assert keeper.own("rows", by=third).incarnation == other
    with pytest.raises(Fenced):
        keeper.own("rows", by=me)


def test_many_ask_at_once_and_one_owns(place: Place) -> None:
    keeper = place.open()
    members = [keeper.enlist(f"n{i}", code="c") for i in range(6)]
    keeper.own("rows", by=members[0])
    keeper.fence(members[0], "dead")
    answers: list[Incarnation] = []
    taken: list[Incarnation | None] = []

    def ask(by: Incarnation) -> None:
        owner = place.open().own("rows", by=by)
        answers.append(owner.incarnation)
        taken.append(owner.before)

    threads = [threading.Thread(target=ask, args=(by,)) for by in members[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 5 and len(set(answers)) == 1
    assert [before for before in taken if before is not None] == [members[0]]


def test_a_wait_ends_when_somebody_is_fenced(place: Place) -> None:
    keeper, other = place.open(), place.open()
    victim = keeper.enlist("n1", code="c")
    seen = other.wait(0, 0.1)
    seen = other.wait(seen, 0.05)
    threading.Timer(0.1, lambda: keeper.fence(victim, "dead")).start()
    assert other.wait(seen, 20.0) > seen


def test_a_promoted_incarnation_takes_the_place_of_the_others(keeper: Keeper, me: Incarnation) -> None:
    spare = keeper.enlist("pool.1", code="c")
    keeper.beat(spare, {"phase": "ready"})
    keeper.promote(spare, "n1")
    assert {m.incarnation: m.node for m in keeper.members()} == {spare: "n1"}
    with pytest.raises(Fenced, match=f"incarnation {spare} took its place"):
        keeper.beat(me, {})
    keeper.promote(spare, "n1")  # a repeat
    assert keeper.beat(spare, {}) == "run"
    newer = keeper.enlist("n1", code="c")
    assert [m.incarnation for m in keeper.members()] == [newer]
    with pytest.raises(Fenced):
        keeper.promote(spare, "n2")
    with pytest.raises(BrokenInvariant, match="never gave out"):
        keeper.promote(Incarnation(99), "n2")


def test_dropped_rows_are_on_record(keeper: Keeper, me: Incarnation) -> None:
    keeper.record_stream(stream("rows"))
    keeper.record_stream(stream("sums", None, "rows"))
    epochs(keeper, "rows", 3, me)
    keeper.claim("sums", EpochNumber(1), {"rows": Span(0, 3)}, by=me)
    keeper.publish("sums", EpochNumber(1), {"sums": Output((), 0, 0, EMPTY_DIGEST, dropped=9)}, by=me)
    found = keeper.epoch("sums", EpochNumber(1))
    assert found is not None and found.output.dropped == 9
    plain = keeper.epoch("rows", EpochNumber(1))
    assert plain is not None and plain.output.dropped is None
    with pytest.raises(BrokenInvariant, match="dropped has rows"):
        Output(output().segments, 3, 100, "3:1:2", dropped=1)
