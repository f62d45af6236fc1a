"""Incarnations: enlisting, beating, leaving, and the fence."""

from __future__ import annotations

import threading

import pytest

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from tests.keeper.place import Place, epochs, output, stream


def test_a_new_incarnation_is_on_record(place: Place) -> None:
    keeper = place.open(clock=lambda: 12.5)
    incarnation = keeper.enlist("n1", code="c1")
    (member,) = keeper.members()
    assert (member.node, member.incarnation, member.state, member.want) == ("n1", incarnation, "starting", "run")
    assert (member.beats, member.code, member.enlisted_at_s, member.report) == (0, "c1", 12.5, {})


def test_enlisting_again_fences_the_older_one_of_the_same_node_only(keeper: Keeper) -> None:
    first, other = keeper.enlist("n1", code="c"), keeper.enlist("n2", code="c")
    second = keeper.enlist("n1", code="c")
    assert first < other < second
    assert {m.incarnation: m.state for m in keeper.members(live=False)} == {
        first: "fenced",
        other: "starting",
        second: "starting",
    }
    with pytest.raises(Fenced, match=f"incarnation {second} took its place"):
        keeper.beat(first, {})


def test_promotion_fences_whoever_else_is_that_node(keeper: Keeper) -> None:
    old, warm, other = (keeper.enlist(node, code="c") for node in ("n1", "pool.1", "n2"))
    keeper.promote(warm, "n1")
    assert [(m.node, m.incarnation) for m in keeper.members()] == [("n1", warm), ("n2", other)]
    with pytest.raises(Fenced, match=f"incarnation {warm} took its place"):
        keeper.beat(old, {})
    keeper.fence(warm, "it hung")
    with pytest.raises(Fenced):
        keeper.promote(warm, "n2")
    assert [m.node for m in keeper.members()] == ["n2"]


def test_beats_are_counted_and_carry_the_report(keeper: Keeper, me: Incarnation) -> None:
    assert keeper.beat(me, {"rows": 1}) == "run"
    keeper.want(me, "drain")
    assert keeper.beat(me, {"rows": [2, None]}) == "drain"
    (member,) = keeper.members()
    assert (member.state, member.beats, member.report, member.want) == ("running", 2, {"rows": [2, None]}, "drain")


def test_a_process_introduces_itself(keeper: Keeper, me: Incarnation) -> None:
    keeper.present(me, host="h", pid=7, pid_started=9)
    (member,) = keeper.members()
    assert (member.host, member.pid, member.pid_started, member.state) == ("h", 7, 9, "starting")


def test_leaving_is_final_and_a_fence_outlasts_it(keeper: Keeper, me: Incarnation) -> None:
    keeper.leave(me)
    keeper.leave(me)
    assert keeper.members() == []
    assert keeper.fence(me, "late") is False
    with pytest.raises(Fenced, match="has left"):
        keeper.beat(me, {})
    other = keeper.enlist("n2", code="c")
    assert keeper.fence(other, "silent") is True
    assert keeper.fence(other, "silent") is False
    keeper.leave(other)
    assert [m.state for m in keeper.members(live=False)] == ["left", "fenced"]


def test_a_fenced_incarnation_writes_nothing(keeper: Keeper, me: Incarnation) -> None:
    keeper.record_stream(stream("lines"))
    epochs(keeper, "lines", 1, me)
    keeper.fence(me, "lease ran out")
    with pytest.raises(Fenced, match="lease ran out"):
        keeper.claim("lines", EpochNumber(2), {"outside": Span(1, 2)}, by=me)
    with pytest.raises(Fenced):
        keeper.publish("lines", EpochNumber(1), {"lines": output("lines1")}, by=me)
    with pytest.raises(Fenced):
        keeper.record_delivery("s", "lines", EpochNumber(1), by=me)
    with pytest.raises(Fenced):
        keeper.beat(me, {})
    with pytest.raises(Fenced):
        keeper.present(me, host="h", pid=1, pid_started=1)
    assert keeper.last_claim("lines") == keeper.claim_of("lines", EpochNumber(1))
    assert keeper.head("lines") == 1 and keeper.delivered("s") == 0


def test_an_incarnation_that_nobody_gave_out(keeper: Keeper) -> None:
    ghost = Incarnation(99)
    with pytest.raises(BrokenInvariant, match="never gave out"):
        keeper.beat(ghost, {})
    with pytest.raises(BrokenInvariant, match="never gave out"):
        keeper.fence(ghost, "x")
    with pytest.raises(BrokenInvariant, match="never gave out"):
        keeper.want(ghost, "run")
    with pytest.raises(BrokenInvariant, match="never gave out"):
        keeper.leave(ghost)


def test_bad_values_are_refused_before_they_are_written(keeper: Keeper, me: Incarnation) -> None:
    with pytest.raises(BrokenInvariant, match="not fit to be recorded"):
        keeper.want(me, "dance")
    with pytest.raises(BrokenInvariant, match="not fit to be recorded"):
        keeper.beat(me, {"x": object()})
    with pytest.raises(BrokenInvariant, match="not fit to be recorded"):
        keeper.beat(me, {"x": float("nan")})
    with pytest.raises(BrokenInvariant, match="not fit to be recorded"):
        keeper.present(me, host="h\0", pid=1, pid_started=1)
    (member,) = keeper.members()
    assert (member.want, member.beats, member.host) == ("run", 0, "")


def test_of_enlistings_at_the_same_moment_one_stays(place: Place) -> None:
    keepers = [place.open() for _ in range(4)]
    start = threading.Barrier(4)
    given: list[Incarnation] = []

    def enlist(keeper: Keeper) -> None:
        start.wait()
        for _ in range(5):
            given.append(keeper.enlist("n1", code="c"))

    threads = [threading.Thread(target=enlist, args=(keeper,)) for keeper in keepers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(given)) == 20
    assert [m.incarnation for m in keepers[0].members()] == [max(given)]
