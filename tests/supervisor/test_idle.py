"""When a pipeline has done all there is to do, on standings written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.home import create_or_open
from rekindle.keeper import open_keeper
from rekindle.keeper.records import (
    EMPTY_DIGEST,
    Claim,
    Epoch,
    EpochNumber,
    Incarnation,
    Output,
    Segment,
    Span,
    StreamRecord,
)
from rekindle.pipeline import Pipeline
from rekindle.sinks.base import Sink, Writer
from rekindle.supervisor.idle import Standing, is_hopeless, is_settled, look
from tests.supervisor.world import Nothing

BY = Incarnation(1)


class Nowhere(Sink):
    """A sink that is never opened."""

    guarantee = "precise"

    def open(self) -> Writer:
        raise NotImplementedError

    def describe(self) -> str:
        return "nowhere"


def pipeline() -> Pipeline:
    made = Pipeline("test")
    made.source("lines", Nothing(), node="in")

    @made.stream(node="work")
    def counts(lines: object) -> object:
        return lines

    made.sink("counts", Nowhere(), node="out")
    return made


PIPELINE = pipeline()


def claim(fragment: str, epoch: int, spans: dict[str, Span]) -> Claim:
    return Claim(fragment, EpochNumber(epoch), spans, BY)


def epoch(stream: str, number: int) -> Epoch:
    return Epoch(stream, EpochNumber(number), stream, Output((), 0, 0, EMPTY_DIGEST), BY, 0.0)


# Three epochs of lines, taken by the counts in two, delivered.
DONE = Standing(
    claims={
        "lines": claim("lines", 3, {"lines": Span(None, {"row": 30})}),
        "counts": claim("counts", 2, {"lines": Span(1, 3)}),
    },
    heads={"lines": epoch("lines", 3), "lines_rejected": epoch("lines_rejected", 3), "counts": epoch("counts", 2)},
    delivered={"counts_sink": 2},
    records={
        "lines": StreamRecord("lines", "lines", "{}", ("lines",), ""),
        "lines_rejected": StreamRecord("lines_rejected", "lines", "{}", ("lines",), ""),
        "counts": StreamRecord("counts", "counts", "{}", ("lines",), ""),
    },
    failed=frozenset(),
    unread=frozenset(),
)
CLAIMED = replace(DONE, claims={**DONE.claims, "lines": claim("lines", 4, {"lines": Span({"row": 30}, {"row": 40})})})
BEHIND = replace(DONE, unread=frozenset({("counts", "lines")}))
NOT_STARTED = replace(
    DONE,
    claims={**DONE.claims, "counts": None},
    heads={"lines": epoch("lines", 3)},
    delivered={"counts_sink": 0},
    unread=frozenset({("counts", "lines")}),
)
NOT_DELIVERED = replace(DONE, delivered={"counts_sink": 1})
NOTHING_YET = Standing({"lines": None, "counts": None}, {}, {"counts_sink": 0}, DONE.records, frozenset(), frozenset())


def test_all_done() -> None:
    assert is_settled(DONE, PIPELINE, ())


def test_nothing_came() -> None:
    assert is_settled(NOTHING_YET, PIPELINE, ())


@pytest.mark.parametrize("standing", [CLAIMED, BEHIND, NOT_STARTED, NOT_DELIVERED])
def test_something_is_left(standing: Standing) -> None:
    assert not is_settled(standing, PIPELINE, ())


@pytest.mark.parametrize(
    ("standing", "subject", "node"),
    [(CLAIMED, "lines", "in"), (BEHIND, "counts", "work"), (NOT_DELIVERED, "counts_sink", "out")],
)
def test_what_failed_is_not_waited_for(standing: Standing, subject: str, node: str) -> None:
    assert is_settled(replace(standing, failed=frozenset({subject})), PIPELINE, ())
    assert is_settled(standing, PIPELINE, (node,))
    assert not is_settled(replace(standing, failed=frozenset({"other"})), PIPELINE, ("other",))


def test_what_moved_shows() -> None:
    standings = [DONE, CLAIMED, NOT_STARTED, NOT_DELIVERED]
    assert all((a.moved == b.moved) == (a is b) for a in standings for b in standings)


def test_hopeless_when_every_fragment_failed_and_the_sinks_took_what_there_is() -> None:
    assert not is_hopeless(DONE, PIPELINE, ())
    assert not is_hopeless(replace(DONE, failed=frozenset({"lines"})), PIPELINE, ())
    failed = frozenset({"lines", "counts"})
    assert is_hopeless(replace(DONE, failed=failed), PIPELINE, ())
    assert not is_hopeless(replace(NOT_DELIVERED, failed=failed), PIPELINE, ())
    assert is_hopeless(replace(DONE, failed=frozenset({"counts"})), PIPELINE, ("in",))
    assert not is_hopeless(replace(DONE, claims={}), PIPELINE, ())


def test_epochs_without_rows_may_lie_unclaimed(tmp_path: Path) -> None:
    """Nobody claims them by themselves: they wait for the next one with rows."""
    keeper = open_keeper(None, home=create_or_open(tmp_path / "home", "test", None))
    by = keeper.enlist("n", code="c")
    for record in (
        StreamRecord("lines", "lines", "{}", (), ""),
        StreamRecord("counts", "counts", "{}", ("lines",), ""),
    ):
        keeper.record_stream(record)
    for number, rows in ((1, 0), (2, 5)):
        position = EpochNumber(number)
        keeper.claim("lines", position, {"lines": Span(number - 1 or None, number)}, by=by)
        segments = (Segment(f"streams/lines/{number}", rows, 1, "x"),) if rows else ()
        keeper.publish("lines", position, {"lines": Output(segments, rows, len(segments), f"{rows}:0:0")}, by=by)
        assert (("counts", "lines") in look(keeper, PIPELINE).unread) == (rows > 0)
    keeper.claim("counts", EpochNumber(1), {"lines": Span(0, 2)}, by=by)
    assert not look(keeper, PIPELINE).unread
    keeper.close()
