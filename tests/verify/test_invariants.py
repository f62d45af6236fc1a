"""Rules over records that no verb would write: made by hand, without a database."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rekindle.keeper.ledger import Delivered, Ledger
from rekindle.keeper.records import (
    Claim,
    Epoch,
    EpochNumber,
    Incarnation,
    Member,
    Output,
    SafePoint,
    Segment,
    Span,
    StreamRecord,
)
from rekindle.verify.invariants import check_records

N, BY = EpochNumber, Incarnation


def member(incarnation: int, node: str = "main", state: str = "fenced") -> Member:
    return Member(node, BY(incarnation), state, "run", "h", 1, 1, 1, "c", 0.0)


def epoch(stream: str, number: int, by: int = 1) -> Epoch:
    path = f"streams/{stream}/{number:012d}-{by}-1/{number:012d}-00000.parquet"
    return Epoch(stream, N(number), stream, Output((Segment(path, 2, 10, "ab"),), 2, 10, "2:1:1"), BY(by), 0.0)


def claim(fragment: str, number: int, by: int = 1, **spans: tuple[object, object]) -> Claim:
    return Claim(fragment, N(number), {name: Span(*span) for name, span in spans.items()}, BY(by))


def sound() -> Ledger:
    """A source ``a`` with three epochs, and ``s``, which takes one of them each time."""
    return Ledger(
        members=(member(1, state="left"), member(2, state="running")),
        owners={"a": BY(2)},
        streams={
            "a": StreamRecord("a", "a", "{}", (), "precise"),
            "s": StreamRecord("s", "s", "{}", ("a",), "precise"),
        },
        claims={
            "a": tuple(claim("a", n, a=(n - 1 or None, n)) for n in (1, 2, 3)),
            "s": tuple(claim("s", n, a=(n - 1, n)) for n in (1, 2, 3)),
        },
        epochs={name: tuple(epoch(name, n) for n in (1, 2, 3)) for name in ("a", "s")},
        safe_points={"s": (point(2, 0), point(3, 2))},
        deliveries=(Delivered("out", "s", N(3), BY(1)),),
    )


def point(number: int, built_on: int) -> SafePoint:
    return SafePoint("s", N(number), number, N(built_on), "m", "c", ("store",), 1, BY(1))


def said(ledger: Ledger) -> list[str]:
    return [finding.what for finding in check_records(ledger)]


def test_sound_records_have_no_finding() -> None:
    assert said(sound()) == []


def test_what_was_trimmed_in_order_is_sound() -> None:
    ledger = sound()
    claims = {"a": ledger.claims["a"][2:], "s": ledger.claims["s"][1:]}
    epochs = {"a": ledger.epochs["a"][2:], "s": ledger.epochs["s"][1:]}
    assert said(replace(ledger, claims=claims, epochs=epochs)) == []


def test_a_new_reader_starts_with_what_is_kept() -> None:
    ledger = sound()
    assert said(replace(ledger, claims={**ledger.claims, "s": (claim("s", 1, a=(2, 3)),)}, epochs={
        **ledger.epochs, "s": ledger.epochs["s"][:1]}, safe_points={}, deliveries=())) == []  # fmt: skip


@pytest.mark.parametrize(
    ("of", "spans", "what"),
    [
        ("s", (0, 2), "does not start where the one before ended"),
        ("s", (1, 7), "runs ahead of what is published"),
        ("s", (1, 0), "takes no range of epochs"),
        ("a", ("x", 2), "does not start where the one before ended"),
    ],
)
def test_spans(of: str, spans: tuple[object, object], what: str) -> None:
    ledger = sound()
    claims = list(ledger.claims[of])
    claims[1] = claim(of, 2, a=spans)
    assert any(what in text for text in said(replace(ledger, claims={**ledger.claims, of: tuple(claims)})))


def test_an_input_that_is_left_out() -> None:
    ledger = sound()
    claims = (*ledger.claims["s"][:2], claim("s", 3))
    assert said(replace(ledger, claims={**ledger.claims, "s": claims})) == [
        "the claim of epoch 3 of 's' leaves out input 'a' of the one before"
    ]


def test_streams_of_one_fragment_end_together() -> None:
    ledger = sound()
    streams = {**ledger.streams, "dead": StreamRecord("dead", "a", "{}", (), "precise")}
    assert said(replace(ledger, streams=streams)) == ["the streams of fragment 'a' do not end at the same epoch"]


def test_a_segment_belongs_to_one_epoch() -> None:
    ledger = sound()
    twice = (*ledger.epochs["a"][:2], replace(ledger.epochs["a"][2], output=ledger.epochs["a"][1].output))
    found = said(replace(ledger, epochs={**ledger.epochs, "a": twice}))
    assert "epochs 2 and 3 of 'a' name the same segment" in found
    assert any("does not lie in the folder of its epoch" in what for what in found)


def test_safe_points_and_deliveries_are_not_ahead() -> None:
    ledger = sound()
    found = said(replace(ledger, safe_points={"s": (point(2, 0), point(4, 2))}))
    assert found == ["the safe point of 's' at epoch 4 is ahead of what is published"]
    assert said(replace(ledger, safe_points={"s": (point(2, 0), point(3, 1))})) == [
        "the safe point of 's' at epoch 3 breaks the chain of safe points"
    ]


def authors(*by: int, nodes: dict[int, str] | None = None) -> list[str]:
    ledger = sound()
    named = nodes or {}
    members = tuple(member(i, named.get(i, "main")) for i in (1, 2, 3))
    epochs = tuple(epoch("a", n, by=i) for n, i in enumerate(by, 1))
    return said(replace(ledger, members=members, epochs={**ledger.epochs, "a": epochs}))


def test_an_incarnation_writes_nothing_after_its_successor_has() -> None:
    assert authors(1, 2, 2) == []
    assert authors(3, 1, 1) == [], "a warm node that was promoted may be older than the one whose place it takes"
    assert authors(1, 2, 1, nodes={2: "main.2"}) == [], "replicas take turns"
    assert authors(1, 2, 1) == ["incarnation 1 of node 'main' wrote into the epochs of 'a' after it was fenced"]
    assert authors(1, 9, 9)[0] == "epoch 2 in the epochs of 'a' is by incarnation 9, which never was"


def test_a_node_has_one_live_incarnation() -> None:
    ledger = sound()
    members = (member(1, state="running"), member(2, state="starting"))
    assert said(replace(ledger, members=members)) == [
        "node 'main' has 2 live incarnations, all but the newest must be fenced"
    ]
