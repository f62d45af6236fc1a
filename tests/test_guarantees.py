"""What streams and sinks guarantee, and which declarations are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import DeclarationError
from rekindle.guarantees import NEITHER, guarantees, satisfies, sink_guarantees, weakest
from rekindle.plan import Traits, check, fuse
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Policy, Rollback, UpstreamBackup
from rekindle.recovery.policy import GUARANTEES

PRECISE, AT_LEAST_ONCE, AT_MOST_ONCE = GUARANTEES


class Words(rk.sources.Rate):
    """A source that guarantees what it is told to."""

    def __init__(self, guarantee: str) -> None:
        super().__init__(10)
        self._guarantee = guarantee

    @property
    def guarantee(self) -> str:
        return self._guarantee


@dataclass(frozen=True)
class Stream:
    reads: str
    recovery: Policy | None = None
    guarantee: str | None = None


def pipeline_of(source: str = PRECISE, /, **streams: Stream) -> rk.Pipeline:
    pipeline = rk.Pipeline("p")
    pipeline.source("s", Words(source))
    for name, stream in streams.items():
        declare = pipeline.stream(name=name, recovery=stream.recovery, guarantee=stream.guarantee)
        declare(operator(*stream.reads.split()))
    return pipeline


def operator(*inputs: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(inputs)}): pass", scope)
    function: Callable[..., Any] = scope["f"]
    return function


@pytest.mark.parametrize("policy", [Rollback(), PassiveStandby(), ActiveStandby(), UpstreamBackup()])
def test_every_policy_but_gap_is_precise(policy: Policy) -> None:
    pipeline = pipeline_of(a=Stream("s", policy, PRECISE))
    check(pipeline)
    assert guarantees(pipeline) == {"s": PRECISE, "a": PRECISE} | (
        {"s_rejected": PRECISE} if pipeline.sources["s"].source.has_rejects else {}
    )


def test_what_is_lost_flows_downstream_and_not_upstream() -> None:
    found = guarantees(pipeline_of(c=Stream("b a"), b=Stream("a", Gap()), a=Stream("s"), other=Stream("a")))
    assert (found["a"], found["b"], found["c"], found["other"]) == (PRECISE, AT_MOST_ONCE, AT_MOST_ONCE, PRECISE)


def test_losing_and_repeating_together_are_neither() -> None:
    found = guarantees(pipeline_of(AT_LEAST_ONCE, a=Stream("s"), b=Stream("a", Gap())))
    assert (found["s"], found["a"], found["b"]) == (AT_LEAST_ONCE, AT_LEAST_ONCE, NEITHER)


def test_dead_letters_are_as_good_as_their_source() -> None:
    pipeline = rk.Pipeline("p")
    pipeline.source("s", rk.sources.Files("in", format="json", schema="a int"))
    assert guarantees(pipeline) == {"s": PRECISE, "s_rejected": PRECISE}


def test_conditions_of_a_source_are_its_own() -> None:
    assert guarantees(pipeline_of("precise if the source replays its offsets"))["s"] == PRECISE


def test_an_unknown_word_of_a_source_or_a_sink_is_refused() -> None:
    with pytest.raises(DeclarationError, match="source 's' gives the unknown guarantee 'best effort'"):
        check(pipeline_of("best effort"))

    class Odd(rk.sinks.Console):
        @property
        def guarantee(self) -> str:
            return "mostly"

    pipeline = pipeline_of()
    pipeline.sink("s", Odd())
    with pytest.raises(DeclarationError, match="sink 's_sink' gives the unknown guarantee 'mostly'"):
        check(pipeline)


def test_a_stream_whose_policy_cannot_give_what_is_declared() -> None:
    with pytest.raises(DeclarationError, match="stream 'a' is declared precise, but gives only at-most-once") as caught:
        check(pipeline_of(a=Stream("s", Gap(), PRECISE)))
    assert __file__ in caught.value.detail
    assert "a at" in caught.value.detail and "recovers by Gap()" in caught.value.detail
    assert "Rollback(), PassiveStandby(), ActiveStandby(), UpstreamBackup()" in caught.value.hint
    assert "Gap" not in caught.value.hint


def test_a_stream_whose_input_cannot_give_what_is_declared() -> None:
    a = Stream("between", None, AT_LEAST_ONCE)
    with pytest.raises(DeclarationError, match="stream 'a' is declared at-least-once") as caught:
        check(pipeline_of(lossy=Stream("s", Gap()), between=Stream("lossy"), a=a))
    assert "lossy at" in caught.value.detail
    assert "between" not in caught.value.detail, "only who loses something is to blame"


def test_both_who_lose_and_who_repeat_are_named() -> None:
    with pytest.raises(DeclarationError, match="is declared at-most-once, but may lose and may repeat") as caught:
        check(pipeline_of(AT_LEAST_ONCE, a=Stream("s", Gap(), AT_MOST_ONCE)))
    assert "source s at" in caught.value.detail
    assert "a at" in caught.value.detail


def test_precise_is_good_enough_for_all_and_the_others_for_themselves() -> None:
    good = {
        (given, declared) for given in (*GUARANTEES, NEITHER) for declared in GUARANTEES if satisfies(given, declared)
    }
    assert good == {
        ("precise", "precise"),
        ("precise", "at-least-once"),
        ("precise", "at-most-once"),
        ("at-least-once", "at-least-once"),
        ("at-most-once", "at-most-once"),
    }


def test_what_is_fused_recovers_alike_so_that_a_fragment_gives_what_its_operators_give() -> None:
    pipeline = pipeline_of(a=Stream("s"), b=Stream("a", Gap()), c=Stream("b", Gap(), AT_MOST_ONCE))
    found = fuse(pipeline, {name: Traits() for name in pipeline.streams})
    assert [[o.name for o in f.operators] for f in found] == [["a"], ["b", "c"]]
    assert {f.recovery.guarantee for f in found} == {guarantees(pipeline)["a"], guarantees(pipeline)["b"]}


def test_the_weakest_of_two_does_not_depend_on_their_order() -> None:
    words = [*GUARANTEES, NEITHER]
    for one in words:
        for other in words:
            assert weakest(one, other) == weakest(other, one)
            assert weakest(weakest(one, other), other) == weakest(one, other)
    assert weakest(AT_LEAST_ONCE, AT_MOST_ONCE) == NEITHER


def test_a_declared_guarantee_holds_for_the_sinks_too(tmp_path: Any) -> None:
    pipeline = pipeline_of(a=Stream("s", None, PRECISE))
    pipeline.sink("a", rk.sinks.Files(tmp_path, format="json"))
    check(pipeline)
    pipeline.sink("a", rk.sinks.Foreach(print), name="called")
    with pytest.raises(DeclarationError, match="its sink 'called' gives only at-least-once") as caught:
        check(pipeline)
    assert __file__ in caught.value.detail


def test_a_sink_that_repeats_is_no_sink_for_what_may_only_be_lost() -> None:
    pipeline = pipeline_of(a=Stream("s", Gap(), AT_MOST_ONCE))
    check(pipeline)
    pipeline.sink("a", rk.sinks.Foreach(print))
    assert sink_guarantees(pipeline) == {"a_sink": NEITHER}
    with pytest.raises(DeclarationError, match="its sink 'a_sink' may lose and may repeat"):
        check(pipeline)


def test_without_a_declaration_nothing_is_refused() -> None:
    pipeline = pipeline_of(AT_LEAST_ONCE, a=Stream("s", Gap()))
    pipeline.sink("a", rk.sinks.Foreach(print))
    pipeline.sink("s", rk.sinks.Console())
    check(pipeline)
    assert sink_guarantees(pipeline) == {"a_sink": NEITHER, "s_sink": AT_LEAST_ONCE}
