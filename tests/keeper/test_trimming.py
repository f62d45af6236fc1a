"""Trimming: what goes, what stays, and who is named where something is still needed."""

from __future__ import annotations

import pytest

from rekindle.errors import BrokenInvariant, Fenced, StillNeeded
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from tests.keeper.place import Place, epochs, output, stream

N = EpochNumber


@pytest.fixture
def lines(keeper: Keeper, me: Incarnation) -> Keeper:
    """Stream lines has eight epochs, and nobody takes it."""
    keeper.record_stream(stream("lines"))
    epochs(keeper, "lines", 8, me)
    return keeper


def read(keeper: Keeper, me: Incarnation, *throughs: int, publish: int) -> None:
    """Fragment counts claims lines up to each of ``throughs``, and publishes that many epochs."""
    keeper.record_stream(stream("counts", None, "lines"))
    after = 0
    for epoch, through in enumerate(throughs, 1):
        keeper.claim("counts", N(epoch), {"lines": Span(after, through)}, by=me)
        if epoch <= publish:
            keeper.publish("counts", N(epoch), {"counts": output(f"counts{epoch}")}, by=me)
        after = through


def safe_point(keeper: Keeper, fragment: str, epoch: int, built_on: int, by: Incarnation) -> None:
    keeper.record_safe_point(
        fragment,
        N(epoch),
        batch=epoch,
        built_on=N(built_on),
        manifest="m",
        checksum="c",
        stores=("s",),
        bytes=1,
        by=by,
    )


def kept(keeper: Keeper, name: str) -> list[int]:
    return [epoch.epoch for epoch in keeper.epochs(name, after=0)]


def claims(keeper: Keeper, fragment: str) -> list[int]:
    return [claim.epoch for claim in keeper.claims(fragment)]


def test_epochs_go_and_the_line_goes_on(lines: Keeper, me: Incarnation) -> None:
    assert lines.oldest("lines") == 1
    lines.trim_epochs("lines", N(4), by=me)
    lines.trim_epochs("lines", N(4), by=me)
    lines.trim_epochs("lines", N(2), by=me)
    assert kept(lines, "lines") == [4, 5, 6, 7, 8] and lines.oldest("lines") == 4
    assert lines.epoch("lines", N(3)) is None and lines.head("lines") == 8
    lines.trim_claims("lines", N(4), by=me)
    assert claims(lines, "lines") == [4, 5, 6, 7, 8]
    first = lines.first_claim("lines")
    assert first is not None and first.epoch == 4
    lines.claim("lines", N(9), {"outside": Span(8, 9)}, by=me)
    assert lines.publish("lines", N(9), {"lines": output("n")}, by=me).won
    assert {name: epoch.epoch for name, epoch in lines.heads().items()} == {"lines": 9}
    assert [claim.epoch for claim in lines.claims("lines", after=7)] == [8, 9]


def test_the_head_and_the_last_two_claims_stay(lines: Keeper, me: Incarnation) -> None:
    lines.trim_epochs("lines", N(100), by=me)
    lines.trim_claims("lines", N(8), by=me)
    assert kept(lines, "lines") == [8] and claims(lines, "lines") == [7, 8]
    assert lines.claim("lines", N(8), {"outside": Span(0, 0)}, by=me).spans == {"outside": Span(7, 8)}
    with pytest.raises(BrokenInvariant, match="not the fragment's next"):
        lines.claim("lines", N(10), {"outside": Span(8, 9)}, by=me)


def test_nothing_of_nothing(keeper: Keeper, me: Incarnation) -> None:
    keeper.trim_epochs("lines", N(5), by=me)
    keeper.trim_claims("lines", N(5), by=me)
    assert keeper.oldest("lines") == 0 and keeper.first_claim("lines") is None
    for wrong in (0, -1):
        with pytest.raises(BrokenInvariant, match="not fit"):
            keeper.trim_epochs("lines", N(wrong), by=me)


def test_a_fenced_incarnation_trims_nothing(lines: Keeper, me: Incarnation) -> None:
    lines.event("k", "s")
    lines.event("k", "s")
    lines.fence(me, "test")
    with pytest.raises(Fenced):
        lines.trim_epochs("lines", N(3), by=me)
    with pytest.raises(Fenced):
        lines.trim_claims("lines", N(1), by=me)
    with pytest.raises(Fenced):
        lines.trim_events(keep=1, by=me)
    assert kept(lines, "lines") == list(range(1, 9)) and len(lines.events()) == 2


def test_a_sink_keeps_what_it_has_not_taken(lines: Keeper, me: Incarnation) -> None:
    for epoch in (1, 2, 3):
        lines.record_delivery("out", "lines", N(epoch), by=me)
    with pytest.raises(StillNeeded, match="sink 'out'"):
        lines.trim_epochs("lines", N(5), by=me)
    assert kept(lines, "lines") == list(range(1, 9))
    lines.trim_epochs("lines", N(4), by=me)
    assert kept(lines, "lines") == [4, 5, 6, 7, 8]
    lines.trim_epochs("lines", N(6), by=me, gone=["out"])
    assert kept(lines, "lines") == [6, 7, 8]


def test_a_reader_keeps_what_it_has_not_published(lines: Keeper, me: Incarnation) -> None:
    read(lines, me, 3, 5, 6, publish=2)
    with pytest.raises(StillNeeded, match="fragment 'counts'"):
        lines.trim_epochs("lines", N(7), by=me)  # its last claim ends at 6, but that epoch is not computed yet
    lines.trim_epochs("lines", N(6), by=me)
    assert kept(lines, "lines") == [6, 7, 8]
    lines.trim_epochs("lines", N(8), by=me, gone={"counts"})
    assert kept(lines, "lines") == [8]


@pytest.mark.parametrize("throughs", [(), (3,)])
def test_a_reader_that_has_published_nothing_keeps_all(lines: Keeper, me: Incarnation, throughs: list[int]) -> None:
    read(lines, me, *throughs, publish=0)
    with pytest.raises(StillNeeded, match="fragment 'counts'"):
        lines.trim_epochs("lines", N(2), by=me)


def test_a_reader_by_its_claims_alone_counts_too(lines: Keeper, me: Incarnation) -> None:
    lines.record_stream(stream("clicks"))
    lines.record_stream(stream("joined", None, "clicks"))
    lines.claim("joined", N(1), {"clicks": Span(0, 0)}, by=me)
    lines.publish("joined", N(1), {"joined": output()}, by=me)
    lines.claim("joined", N(2), {"clicks": Span(0, 0), "lines": Span(0, 2)}, by=me)
    with pytest.raises(StillNeeded, match="fragment 'joined'"):
        lines.trim_epochs("lines", N(2), by=me)
    lines.publish("joined", N(2), {"joined": output()}, by=me)
    lines.trim_epochs("lines", N(3), by=me)
    assert kept(lines, "lines") == [3, 4, 5, 6, 7, 8]


def test_a_pin_keeps_what_comes_after_it(lines: Keeper, me: Incarnation) -> None:
    read(lines, me, 1, 3, 5, 7, publish=4)
    safe_point(lines, "counts", 2, 0, me)
    lines.pin("counts", N(2), "a snapshot")
    for gone in ((), ("counts",)):
        with pytest.raises(StillNeeded, match="a pinned safe point of fragment 'counts'"):
            lines.trim_epochs("lines", N(5), by=me, gone=gone)
    lines.trim_epochs("lines", N(4), by=me)
    assert lines.oldest("lines") == 4
    lines.trim_epochs("counts", N(4), by=me)
    with pytest.raises(StillNeeded, match="its pinned safe points"):
        lines.trim_claims("counts", N(3), by=me)
    lines.trim_claims("counts", N(2), by=me)
    assert claims(lines, "counts") == [2, 3, 4]
    lines.unpin("counts", N(2), "a snapshot")
    lines.trim_epochs("lines", N(8), by=me)
    lines.trim_claims("counts", N(3), by=me)
    assert kept(lines, "lines") == [8] and claims(lines, "counts") == [3, 4]


def test_a_claim_is_kept_as_long_as_its_epoch(lines: Keeper, me: Incarnation) -> None:
    read(lines, me, *[3] * 6, publish=3)
    lines.trim_epochs("lines", N(4), by=me)
    with pytest.raises(StillNeeded, match="its epochs of stream 'lines'"):
        lines.trim_claims("lines", N(5), by=me)
    with pytest.raises(StillNeeded, match="its epochs of stream 'counts'"):
        lines.trim_claims("counts", N(2), by=me)
    for epoch in range(1, 6):
        lines.claim("elsewhere", N(epoch), {"outside": Span(epoch - 1 or None, epoch)}, by=me)
    with pytest.raises(StillNeeded, match="not published yet"):
        lines.trim_claims("elsewhere", N(2), by=me)


def test_what_is_asked_of_the_trimmed_is_told_so(lines: Keeper, me: Incarnation) -> None:
    lines.trim_epochs("lines", N(6), by=me)
    lines.trim_claims("lines", N(5), by=me)
    with pytest.raises(BrokenInvariant, match="was trimmed"):
        lines.claim("lines", N(3), {"outside": Span(2, 3)}, by=me)
    with pytest.raises(BrokenInvariant, match="after its claim was trimmed"):
        lines.publish("lines", N(3), {"lines": output()}, by=me)
    with pytest.raises(BrokenInvariant, match="cannot be published") as refused:
        lines.publish("lines", N(5), {"lines": output()}, by=me)
    assert refused.value.detail == "it was trimmed"
    assert kept(lines, "lines") == [6, 7, 8] and claims(lines, "lines") == [5, 6, 7, 8]


def test_a_new_reader_starts_with_what_is_kept(lines: Keeper, me: Incarnation) -> None:
    lines.trim_epochs("lines", N(6), by=me)
    for name in ("counts", "sums"):
        lines.record_stream(stream(name, None, "lines"))
    for after in (0, 4, 6):
        with pytest.raises(BrokenInvariant, match="does not start where"):
            lines.claim("counts", N(1), {"lines": Span(after, 8)}, by=me)
    lines.claim("counts", N(1), {"lines": Span(5, 7)}, by=me)
    with pytest.raises(StillNeeded, match="fragment 'counts'"):
        lines.trim_epochs("lines", N(7), by=me, gone=["sums"])
    lines.claim("sums", N(1), {"lines": Span(5, 5)}, by=me)
    assert lines.claim("counts", N(2), {"lines": Span(7, 8)}, by=me).spans == {"lines": Span(7, 8)}


def test_a_new_sink_starts_with_what_is_kept(lines: Keeper, me: Incarnation) -> None:
    lines.trim_epochs("lines", N(6), by=me)
    with pytest.raises(BrokenInvariant, match="not the next one"):
        lines.record_delivery("out", "lines", N(7), by=me)
    lines.record_delivery("out", "lines", N(6), by=me)
    assert lines.delivered("out") == 6
    with pytest.raises(BrokenInvariant, match="not the next one"):
        lines.record_delivery("out", "lines", N(8), by=me)
    lines.record_delivery("out", "lines", N(7), by=me)
    lines.claim("lines", N(9), {"outside": Span(8, 9)}, by=me)
    lines.publish("lines", N(9), {"lines": output("n")}, by=me)
    with pytest.raises(StillNeeded, match="sink 'out'"):
        lines.trim_epochs("lines", N(9), by=me)


def test_the_newest_events_and_attempts_stay(place: Place) -> None:
    ticks = iter(range(1, 1000))
    keeper = place.open(clock=lambda: float(next(ticks)))
    me = keeper.enlist("n1", code="")
    keeper.trim_events(keep=3, by=me)
    for number in range(10):
        keeper.event("k", f"s{number}")
        keeper.record_attempt("f", N(number), by=me)
    last = keeper.events()[-1]
    keeper.trim_events(keep=3, by=me)
    assert [event.subject for event in keeper.events()] == ["s7", "s8", "s9"]
    assert keeper.events()[-1] == last
    assert [keeper.record_attempt("f", N(number), by=me) for number in (6, 7, 9)] == [1, 2, 2]
    keeper.event("k", "s10")
    assert keeper.events()[-1].id == last.id + 1
    with pytest.raises(BrokenInvariant, match="always kept"):
        keeper.trim_events(keep=0, by=me)
