"""Claim and publish, and the invariants that they keep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.errors import BrokenInvariant
from rekindle.keeper import Keeper, line
from rekindle.keeper.records import EpochNumber, Incarnation, Output, Segment, Span
from tests.keeper.place import Place, epochs, output, stream

E1, E2, E3 = EpochNumber(1), EpochNumber(2), EpochNumber(3)


@pytest.fixture
def other(keeper: Keeper) -> Incarnation:
    return keeper.enlist("n2", code="c1")


@pytest.fixture
def two_streams(keeper: Keeper, me: Incarnation) -> None:
    """Stream lines has three epochs; fragment counts reads it and has none."""
    keeper.record_stream(stream("lines"))
    keeper.record_stream(stream("counts", None, "lines"))
    epochs(keeper, "lines", 3, me)


def test_the_first_record_of_a_stream_stays(keeper: Keeper) -> None:
    first = stream("lines", "f", "a", "b")
    assert keeper.record_stream(first) == first
    assert keeper.record_stream(stream("lines", "g")) == first
    assert keeper.streams() == {"lines": first}


def test_the_first_claim_wins_and_the_second_is_told(place: Place) -> None:
    keeper = place.open(clock=lambda: 5.0)
    a, b = keeper.enlist("a", code=""), keeper.enlist("b", code="")
    first = keeper.claim("lines", E1, {"outside": Span(None, {"file": [1, "x"]})}, by=a)
    assert (first.incarnation, first.claimed_at_s, first.spans["outside"].through) == (a, 5.0, {"file": [1, "x"]})
    assert keeper.claim("lines", E1, {"outside": Span(None, "other")}, by=b) == first
    assert keeper.claim("lines", E1, {"nonsense": Span(7, 3)}, by=b) == first
    assert keeper.claim_of("lines", E1) == first == keeper.last_claim("lines")


def test_an_old_claim_is_adopted(keeper: Keeper, me: Incarnation) -> None:
    epochs(keeper, "lines", 5, me)
    claim = keeper.claim("lines", E2, {"outside": Span(None, 77)}, by=me)
    assert claim.spans == {"outside": Span(1, 2)}


@pytest.mark.usefixtures("two_streams")
@pytest.mark.parametrize(
    ("spans", "says"),
    [
        ({"lines": Span(0, 4)}, "runs ahead of what is published"),
        ({"lines": Span(1, 2)}, "does not start where"),
        ({"lines": Span(None, 2)}, "does not start where"),
        ({"lines": Span(0, -1)}, "runs backwards"),
        ({"lines": Span(0, "2")}, "needs epoch numbers"),
        ({"lines": Span(0, True)}, "needs epoch numbers"),
        ({"unknown": Span(0, 1)}, "does not start where"),
        ({"unknown": Span(None, float("nan"))}, "not fit to be recorded"),
        ({"unknown": Span(None, object())}, "not fit to be recorded"),
        ({"unknown": (None, 1)}, "not fit to be recorded"),
    ],
)
def test_first_claims_that_are_refused(keeper: Keeper, me: Incarnation, spans: dict[str, Any], says: str) -> None:
    with pytest.raises(BrokenInvariant, match=says):
        keeper.claim("counts", E1, spans, by=me)
    assert keeper.last_claim("counts") is None


@pytest.mark.usefixtures("two_streams")
@pytest.mark.parametrize(
    ("epoch", "spans", "says"),
    [
        (2, {"lines": Span(1, 3), "s": Span("x", "y")}, "does not start where"),
        (2, {"lines": Span(2, 3), "s": Span("z", "y")}, "does not start where"),
        (2, {"lines": Span(2, 3)}, "leaves out"),
        (3, {"lines": Span(2, 3), "s": Span("x", "y")}, "not the fragment's next"),
        (0, {"lines": Span(2, 3), "s": Span("x", "y")}, "not fit"),
    ],
)
def test_later_claims_that_are_refused(
    keeper: Keeper, me: Incarnation, epoch: int, spans: dict[str, Span], says: str
) -> None:
    first = keeper.claim("counts", E1, {"lines": Span(0, 2), "s": Span(None, "x")}, by=me)
    with pytest.raises(BrokenInvariant, match=says):
        keeper.claim("counts", EpochNumber(epoch), spans, by=me)
    assert keeper.last_claim("counts") == first


@pytest.mark.usefixtures("two_streams")
def test_empty_spans_and_new_inputs_are_fine(keeper: Keeper, me: Incarnation) -> None:
    keeper.claim("counts", E1, {"lines": Span(0, 0)}, by=me)
    keeper.claim("counts", E2, {"lines": Span(0, 3), "new": Span(None, 1)}, by=me)
    keeper.claim("counts", E3, {"lines": Span(3, 3), "new": Span(1, 1)}, by=me)
    assert [c.epoch for c in keeper.claims("counts")] == [1, 2, 3]


def test_a_position_that_json_rewrites_still_fits(keeper: Keeper, me: Incarnation) -> None:
    keeper.claim("lines", E1, {"outside": Span(None, ("a", {"z": 1, "b": 2.0}))}, by=me)
    claim = keeper.claim("lines", E2, {"outside": Span(["a", {"b": 2.0, "z": 1}], "\0\udc80")}, by=me)
    assert claim.spans["outside"].through == "\0\udc80"


def test_an_own_stream_is_no_stream_input(keeper: Keeper, me: Incarnation) -> None:
    keeper.record_stream(stream("lines"))
    assert keeper.claim("lines", E1, {"lines": Span(None, "far")}, by=me).spans == {"lines": Span(None, "far")}


def test_the_first_publish_wins_and_the_second_is_told(keeper: Keeper, me: Incarnation, other: Incarnation) -> None:
    keeper.claim("lines", E1, {"outside": Span(None, 1)}, by=me)
    mine = Output((Segment("a.parquet", 1, 2, "ff"), Segment("b.parquet", 2, 2, "fe")), 3, 4, "d", -5, 2**60)
    first = keeper.publish("lines", E1, {"lines": mine}, by=me)
    assert first.won and first.epochs["lines"].output == mine
    second = keeper.publish("lines", E1, {"lines": output("theirs")}, by=other)
    assert not second.won and second.epochs == first.epochs
    assert keeper.publish("lines", E1, {"lines": mine}, by=me) == first
    assert not keeper.publish("lines", E1, {"lines": mine}, by=other).won
    assert not keeper.publish("lines", E1, {"lines": output("mine, again")}, by=me).won
    assert keeper.epoch("lines", E1) == first.epochs["lines"]


@pytest.mark.usefixtures("two_streams")
def test_publishes_that_are_refused(keeper: Keeper, me: Incarnation) -> None:
    with pytest.raises(BrokenInvariant, match="without a claim"):
        keeper.publish("counts", E1, {"counts": output()}, by=me)
    keeper.claim("counts", E1, {"lines": Span(0, 1)}, by=me)
    keeper.claim("counts", E2, {"lines": Span(1, 2)}, by=me)
    with pytest.raises(BrokenInvariant, match="not the next one"):
        keeper.publish("counts", E2, {"counts": output()}, by=me)
    with pytest.raises(BrokenInvariant, match="no stream"):
        keeper.publish("counts", E1, {}, by=me)
    with pytest.raises(BrokenInvariant, match="cannot be published on stream 'lines'"):
        keeper.publish("counts", E1, {"lines": output()}, by=me)
    with pytest.raises(BrokenInvariant, match="some of the fragment's streams"):
        keeper.publish("counts", E1, {"counts": output(), "lines": output()}, by=me)
    with pytest.raises(BrokenInvariant, match="a path inside the home"):
        keeper.publish("counts", E1, {"counts": output("../../../x")}, by=me)
    assert keeper.head("counts") == 0


def test_several_streams_at_once(keeper: Keeper, me: Incarnation, other: Incarnation) -> None:
    keeper.claim("lines", E1, {"outside": Span(None, 1)}, by=me)
    both = {"lines": output("a"), "lines_rejected": output("b", 0)}
    assert keeper.publish("lines", E1, both, by=me).won
    assert set(keeper.publish("lines", E1, both, by=other).epochs) == {"lines", "lines_rejected"}
    assert {name: epoch.output for name, epoch in keeper.heads().items()} == both


@pytest.mark.usefixtures("two_streams")
def test_reading_back(keeper: Keeper, me: Incarnation) -> None:
    assert keeper.head("lines") == 3 and keeper.head("nothing") == 0
    assert [e.epoch for e in keeper.epochs("lines", after=0)] == [1, 2, 3]
    assert [e.epoch for e in keeper.epochs("lines", after=1, through=2)] == [2]
    assert [e.epoch for e in keeper.epochs("lines", after=0, limit=2)] == [1, 2]
    assert keeper.epochs("lines", after=3) == []
    assert keeper.epoch("lines", EpochNumber(4)) is None and keeper.claim_of("lines", EpochNumber(4)) is None
    keeper.claim("counts", E1, {"lines": Span(0, 1)}, by=me)
    keeper.publish("counts", E1, {"counts": output()}, by=me)
    assert {name: epoch.epoch for name, epoch in keeper.heads().items()} == {"lines": 3, "counts": 1}


def test_heads_of_nothing(keeper: Keeper) -> None:
    assert keeper.heads() == {} and keeper.streams() == {} and list(keeper.claims("x")) == []


def test_claims_come_in_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "CLAIMS_A_PAGE", 4)
    keeper = place.open()
    me = keeper.enlist("n1", code="")
    count = 11
    for e in range(1, count + 1):
        keeper.claim("lines", EpochNumber(e), {"outside": Span(e - 1 or None, e)}, by=me)
    assert [c.epoch for c in keeper.claims("lines")] == list(range(1, count + 1))
    assert [c.epoch for c in keeper.claims("lines", after=count - 1)] == [count]


def test_the_first_epoch_that_reaches_an_event_time(keeper: Keeper, me: Incarnation) -> None:
    times = [(1, 5), None, (3, 9), (2, 4), (-9, -7)]
    for e, bounds in enumerate(times, start=1):
        made = output(str(e), rows=0 if bounds is None else 3)
        if bounds is not None:
            made = replace(made, event_time_min_us=bounds[0], event_time_max_us=bounds[1])
        keeper.claim("lines", EpochNumber(e), {"outside": Span(e - 1 or None, e)}, by=me)
        keeper.publish("lines", EpochNumber(e), {"lines": made}, by=me)
    found = [keeper.first_reaching("lines", t, after=0, through=5) for t in (-9, 5, 6, 9, 10)]
    assert found == [1, 1, 3, 3, None]  # an epoch without rows reaches nothing
    assert keeper.first_reaching("lines", 4, after=1, through=5) == 3
    assert keeper.first_reaching("lines", 4, after=3, through=5) == 4
    assert keeper.first_reaching("lines", 4, after=1, through=2) is None
    assert keeper.first_reaching("lines", -8, after=4, through=5) == 5
    keeper.claim("lines", EpochNumber(6), {"outside": Span(5, 6)}, by=me)
    keeper.publish("lines", EpochNumber(6), {"lines": output("6")}, by=me)
    assert keeper.first_reaching("lines", 99, after=0, through=6) == 6  # rows, and nothing known of their times
    assert keeper.first_reaching("other", 0, after=0, through=9) is None


def test_the_watermark_of_an_epoch_is_on_record(keeper: Keeper, me: Incarnation) -> None:
    keeper.claim("lines", E1, {"outside": Span(None, 1)}, by=me)
    made = replace(output(), watermark_us=-5)
    assert keeper.publish("lines", E1, {"lines": made}, by=me).won
    assert keeper.heads()["lines"].output == made
