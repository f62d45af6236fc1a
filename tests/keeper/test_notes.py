"""Deliveries, attempts, failures and events."""

from __future__ import annotations

import threading

import pytest

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Failure, Incarnation
from tests.keeper.place import Place, epochs, stream

E1, E2, E3 = EpochNumber(1), EpochNumber(2), EpochNumber(3)


def test_deliveries_are_dense_and_behind_what_is_published(keeper: Keeper, me: Incarnation) -> None:
    keeper.record_stream(stream("lines"))
    epochs(keeper, "lines", 2, me)
    assert keeper.delivered("s") == 0
    with pytest.raises(BrokenInvariant, match="not the next one"):
        keeper.record_delivery("s", "lines", E2, by=me)
    assert keeper.delivered("s") == 0
    keeper.record_delivery("s", "lines", E1, by=me)
    keeper.record_delivery("s", "lines", E1, by=me)
    keeper.record_delivery("s", "lines", E2, by=me)
    keeper.record_delivery("s", "lines", E1, by=me)
    assert keeper.delivered("s") == 2
    with pytest.raises(BrokenInvariant, match="runs ahead"):
        keeper.record_delivery("s", "lines", E3, by=me)
    with pytest.raises(BrokenInvariant, match="is of stream 'counts'"):
        keeper.record_delivery("s", "counts", E3, by=me)
    assert keeper.delivered("s") == 2


def test_attempts_are_counted_over_incarnations(keeper: Keeper, me: Incarnation) -> None:
    other = keeper.enlist("n2", code="")
    assert [keeper.record_attempt("f", E1, by=by) for by in (me, other, me)] == [1, 2, 3]
    assert keeper.record_attempt("f", E2, by=me) == 1
    assert keeper.record_attempt("g", E1, by=me) == 1
    keeper.clear_failures()
    assert keeper.record_attempt("f", E1, by=me) == 1


def test_what_fails_in_a_fenced_incarnation_does_not_count(keeper: Keeper, me: Incarnation) -> None:
    keeper.fence(me, "it hung")
    with pytest.raises(Fenced):
        keeper.record_attempt("f", E1, by=me)
    assert keeper.record_attempt("f", E1, by=keeper.enlist("n1", code="")) == 1


def test_a_failure_replaces_the_older_one(place: Place) -> None:
    keeper = place.open(clock=lambda: 3.0)
    me = keeper.enlist("n1", code="")
    keeper.record_failure("f", E1, reason="r1", traceback="t1", by=me)
    keeper.record_failure("f", E2, reason="r2 \0", traceback="t2 \udc80", by=me)
    keeper.record_failure("a", E1, reason="r", traceback="t", by=me)
    assert keeper.failures() == [
        Failure("a", E1, "r", "t", 3.0),
        Failure("f", E2, "r2 \\x00", "t2 \\udc80", 3.0),
    ]
    keeper.clear_failures()
    assert keeper.failures() == []


def test_events_are_read_in_order(place: Place) -> None:
    keeper = place.open(clock=lambda: 1.5)
    keeper.event("died", "n1", signal=9, pid=4)
    keeper.event("born", "n1")
    keeper.event("died", "n2")
    first, second, third = keeper.events()
    assert (first.at_s, first.kind, first.subject, first.detail) == (1.5, "died", "n1", {"signal": 9, "pid": 4})
    assert keeper.events(after=first.id) == [second, third]
    assert keeper.events(limit=1) == [first]
    assert keeper.events(kinds=["died"]) == [first, third]
    assert keeper.events(kinds=["died"], after=first.id, limit=5) == [third]


def test_who_reads_on_misses_no_event(place: Place) -> None:
    writers = [place.open() for _ in range(3)]
    reader = place.open()

    def write(keeper: Keeper, name: str) -> None:
        for number in range(20):
            keeper.event("k", name, number=number)

    threads = [threading.Thread(target=write, args=(k, f"w{i}")) for i, k in enumerate(writers)]
    for thread in threads:
        thread.start()
    read: list[int] = []
    while any(thread.is_alive() for thread in threads):
        read += [event.id for event in reader.events(after=read[-1] if read else 0)]
    read += [event.id for event in reader.events(after=read[-1] if read else 0)]
    assert read == [event.id for event in reader.events()] and len(read) == 60
