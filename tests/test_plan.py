"""Where the graph is cut, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import DeclarationError
from rekindle.plan import Fragment, Traits, check, fuse, order

STATEFUL = Traits(stateful=("an aggregate",))
RANDOM = Traits(nondeterministic=("rand()",))
PLAIN = Traits()


def pipeline_of(**inputs: str) -> rk.Pipeline:
    """A pipeline with one source ``s``; each argument is a stream and the names it reads."""
    pipeline = rk.Pipeline("p")
    pipeline.source("s", rk.sources.Rate(10))
    for name, reads in inputs.items():
        pipeline.stream(name=name)(operator(*reads.split()))
    return pipeline


def operator(*inputs: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def f({', '.join(inputs)}): pass", scope)
    function: Callable[..., Any] = scope["f"]
    return function


def fragments(pipeline: rk.Pipeline, **traits: Traits) -> dict[str, Fragment]:
    return {f.name: f for f in fuse(pipeline, {name: traits.get(name, PLAIN) for name in pipeline.streams})}


def members(fragment: Fragment) -> list[str]:
    return [o.name for o in fragment.operators]


def test_a_chain_of_stateless_operators_is_one_fragment() -> None:
    found = fragments(pipeline_of(a="s", b="a", c="b"))
    assert list(found) == ["c"]
    assert members(found["c"]) == ["a", "b", "c"]
    assert found["c"].inputs == ("s",)
    assert not found["c"].stateful


def test_one_state_a_fragment() -> None:
    found = fragments(pipeline_of(a="s", b="a", c="b"), a=STATEFUL, c=STATEFUL)
    assert members(found["a"]) == ["a"]
    assert members(found["c"]) == ["b", "c"]
    assert "one state a fragment" in found["a"].why[0]


def test_a_stateful_operator_takes_the_stateless_ones_after_it_along() -> None:
    found = fragments(pipeline_of(a="s", b="a"), a=STATEFUL)
    assert members(found["b"]) == ["a", "b"]
    assert found["b"].stateful


def test_several_readers_cut() -> None:
    found = fragments(pipeline_of(a="s", b="a", c="a"))
    assert set(found) == {"a", "b", "c"}
    assert found["a"].why == ("several read it: b, c",)


def test_a_sink_cuts() -> None:
    pipeline = pipeline_of(a="s", b="a")
    pipeline.sink("a", rk.sinks.Console())
    assert fragments(pipeline)["a"].why == ("a sink takes it",)


def test_keep_cuts() -> None:
    pipeline = pipeline_of(a="s")
    pipeline.stream(name="k", keep=True)(operator("a"))
    pipeline.stream(name="b")(operator("k"))
    assert members(fragments(pipeline)["k"]) == ["a", "k"]


def test_another_node_cuts() -> None:
    pipeline = pipeline_of(a="s")
    pipeline.stream(name="b", node="other")(operator("a"))
    found = fragments(pipeline)
    assert (found["a"].node, found["b"].node) == ("main", "other")


def test_positions_cut() -> None:
    found = fragments(pipeline_of(a="s", b="a"), b=Traits(reads_positions_of=frozenset({"a"})))
    assert set(found) == {"a", "b"}


def test_nondeterminism_ends_its_fragment() -> None:
    found = fragments(pipeline_of(a="s", b="a", c="b"), b=RANDOM)
    assert members(found["b"]) == ["a", "b"]
    assert members(found["c"]) == ["c"]
    assert not found["b"].deterministic
    assert found["c"].deterministic


def test_a_state_never_shares_a_fragment_with_what_is_not_deterministic() -> None:
    found = fragments(pipeline_of(a="s", b="a", c="b"), a=STATEFUL, c=RANDOM)
    assert members(found["a"]) == ["a"]
    assert members(found["c"]) == ["b", "c"]
    assert not found["c"].stateful


def test_nondeterministic_state_is_refused_with_the_way_to_split_it() -> None:
    with pytest.raises(DeclarationError, match="not deterministic and keeps state") as caught:
        fragments(pipeline_of(a="s"), a=Traits(stateful=("an aggregate",), nondeterministic=("uuid()",)))
    assert "split it" in caught.value.hint
    assert __file__ in caught.value.detail


def test_transform_with_state_in_memory_is_refused() -> None:
    pipeline = rk.Pipeline("p")
    pipeline.source("s", rk.sources.Rate(1))
    pipeline.stream(name="a", state="memory")(operator("s"))
    assert fragments(pipeline, a=STATEFUL)["a"].state == "memory"
    with pytest.raises(DeclarationError, match="'a' cannot keep its state in memory") as caught:
        fragments(pipeline, a=Traits(stateful=("transformWithState",)))
    assert __file__ in caught.value.detail


def test_what_the_user_declares_outranks_the_plan() -> None:
    pipeline = rk.Pipeline("p")
    pipeline.source("s", rk.sources.Rate(10))
    pipeline.stream(name="a", deterministic=True)(operator("s"))
    pipeline.stream(name="b", deterministic=False)(operator("s"))
    found = fragments(pipeline, a=Traits(stateful=("an aggregate",), nondeterministic=("collect_list()",)))
    assert found["a"].deterministic
    assert not found["b"].deterministic


def test_inputs_come_first() -> None:
    assert order(pipeline_of(c="b", b="a", a="s")) == ("a", "b", "c")


def test_an_unknown_input_is_refused_with_a_suggestion() -> None:
    with pytest.raises(DeclarationError, match="unknown stream 'coutns'") as caught:
        check(pipeline_of(counts="s", top="coutns"))
    assert caught.value.hint == "did you mean 'counts'?"
    assert __file__ in caught.value.detail


def test_an_unknown_sink_stream_is_refused() -> None:
    pipeline = pipeline_of(a="s")
    pipeline.sink("b", rk.sinks.Console())
    with pytest.raises(DeclarationError, match="sink 'b_sink' delivers the unknown stream 'b'"):
        check(pipeline)


def test_a_cycle_is_refused_and_named() -> None:
    with pytest.raises(DeclarationError, match=r"cycle: a <- c <- b <- a|cycle: a <- b <- c <- a") as caught:
        check(pipeline_of(a="s c", b="a", c="b"))
    assert __file__ in caught.value.detail


def test_a_pipeline_without_source_is_refused() -> None:
    with pytest.raises(DeclarationError, match="has no source"):
        check(rk.Pipeline("p"))
