"""Claims that are given from outside: proposed in order, when what they take in is there, and no earlier."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from rekindle.node.claims import Claims
from rekindle.node.prescribed import VARIABLE, Prescribed, are_published
from tests.keeper.place import Place, output, stream
from tests.node.test_claims import FRAGMENT, publish

GIVEN = Prescribed({"counts": [{"lines": Span(0, 2)}, {"lines": Span(2, 3)}]})


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    keeper = Place(tmp_path, None).open()
    keeper.record_stream(stream("lines"))
    return keeper


def claims(keeper: Keeper, by: Incarnation, stopping: threading.Event) -> Claims:
    return Claims(keeper, FRAGMENT, by, stopping, settle_s=1.0, clock=lambda: 0.0, prescribed=GIVEN)


def test_it_is_written_and_read_again(tmp_path: Path) -> None:
    source = Prescribed({"ticks": [{"ticks": Span(None, {"seq": 5})}]}, {"ticks": "over"})
    for given in (source, GIVEN, Prescribed()):
        given.write(tmp_path / "claims.json")
        assert Prescribed.from_environment({VARIABLE: str(tmp_path / "claims.json")}) == given
    assert Prescribed.from_environment({}) == Prescribed()


def test_what_is_prescribed_is_claimed_though_more_is_there_and_then_what_there_is(keeper: Keeper) -> None:
    by = keeper.enlist("main", code="c")
    publish(keeper, by, [output(str(n)) for n in range(5)])
    mine = claims(keeper, by, threading.Event())
    works = [mine.next(EpochNumber(epoch)) for epoch in (1, 2, 3)]
    assert [work.claim.spans["lines"] for work in works if work is not None] == [Span(0, 2), Span(2, 3), Span(3, 5)]


def test_what_is_not_published_yet_is_waited_for(keeper: Keeper) -> None:
    by = keeper.enlist("main", code="c")
    publish(keeper, by, [output("1")])
    assert not are_published(keeper, {"lines": Span(0, 2)})
    stopping = threading.Event()
    found: list[Span] = []

    def ask() -> None:
        work = claims(keeper, by, stopping).next(EpochNumber(1))
        if work is not None:
            found.append(work.claim.spans["lines"])

    asking = threading.Thread(target=ask)
    asking.start()
    assert keeper.last_claim("counts") is None
    publish(keeper, by, [output("2")])
    asking.join(30)
    assert found == [Span(0, 2)]


def test_a_claim_on_record_stands(keeper: Keeper) -> None:
    by = keeper.enlist("main", code="c")
    publish(keeper, by, [output("1"), output("2")])
    keeper.claim("counts", EpochNumber(1), {"lines": Span(0, 1)}, by=by)
    work = claims(keeper, by, threading.Event()).next(EpochNumber(1))
    assert work is not None and work.claim.spans["lines"] == Span(0, 1)


def test_when_a_source_has_come_to_its_end(tmp_path: Path) -> None:
    over = tmp_path / "over"
    given = Prescribed(over={"lines": str(over)})
    assert not Prescribed().is_over("lines") and not given.is_over("lines")
    over.touch()
    assert given.is_over("lines") and not given.is_over("others")
    assert Prescribed({"lines": []}).is_over("lines") and not Prescribed({"lines": []}).is_over("others")
