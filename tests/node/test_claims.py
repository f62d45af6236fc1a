"""Claims of a fragment, on a keeper on SQLite."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from rekindle.keeper import Keeper
from rekindle.keeper.records import EMPTY_DIGEST, Claim, EpochNumber, Incarnation, Output, Span
from rekindle.node.claims import EMPTY_MAX, Claims, available
from rekindle.plan import Fragment
from rekindle.recovery import Rollback
from rekindle.supervisor.idle import LOOK_EPOCHS
from tests.keeper.place import Place, output, stream

FRAGMENT = Fragment("counts", (), ("lines",), "main", "append", False, True, False, 100, None, "", Rollback(), ())
EMPTY = Output((), 0, 0, EMPTY_DIGEST)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    keeper = Place(tmp_path, None).open()
    keeper.record_stream(stream("lines"))
    return keeper


def publish(keeper: Keeper, by: Incarnation, outputs: list[Output]) -> None:
    for out in outputs:
        epoch = EpochNumber(keeper.head("lines") + 1)
        keeper.claim("lines", epoch, {"outside": Span(epoch - 1 or None, epoch)}, by=by)
        keeper.publish("lines", epoch, {"lines": out}, by=by)


def proposed(keeper: Keeper) -> Span | None:
    """What one look proposes, if anything."""
    spans, rows, epochs = available(keeper, FRAGMENT, None, FRAGMENT.rows_max)
    return spans["lines"] if rows or epochs >= EMPTY_MAX else None


def test_rows_are_claimed_and_a_few_empty_epochs_are_left(keeper: Keeper) -> None:
    by = keeper.enlist("main", code="c")
    publish(keeper, by, [EMPTY] * (EMPTY_MAX - 1))
    assert proposed(keeper) is None
    publish(keeper, by, [output()])
    assert proposed(keeper) == Span(0, EMPTY_MAX)


def test_who_is_second_works_by_the_claim_on_record(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    by, other = keeper.enlist("main", code="c"), keeper.enlist("main.2", code="c")
    publish(keeper, by, [output()] * 3)
    claim = keeper.claim

    def too_late(fragment: str, epoch: EpochNumber, spans: Mapping[str, Span], *, by: Incarnation) -> Claim:
        assert spans == {"lines": Span(0, 3)}
        claim(fragment, epoch, {"lines": Span(0, 1)}, by=other)
        return claim(fragment, epoch, spans, by=by)

    monkeypatch.setattr(keeper, "claim", too_late)
    claims = Claims(keeper, FRAGMENT, by, threading.Event(), settle_s=1.0, clock=lambda: 0.0)
    work = claims.next(EpochNumber(1))
    assert work is not None and work.claim.incarnation == other
    assert [record.epoch for record in work.inputs["lines"]] == [1]


def test_many_empty_epochs_are_claimed_before_they_keep_a_run_from_being_idle(keeper: Keeper) -> None:
    assert EMPTY_MAX < LOOK_EPOCHS
    by = keeper.enlist("main", code="c")
    publish(keeper, by, [EMPTY] * EMPTY_MAX)
    claims = Claims(keeper, FRAGMENT, by, threading.Event(), settle_s=1.0, clock=lambda: 0.0)
    work = claims.next(EpochNumber(1))
    assert work is not None
    assert work.claim.spans == {"lines": Span(0, EMPTY_MAX)}
