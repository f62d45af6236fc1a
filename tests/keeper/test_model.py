"""Any sequence of verbs, by any incarnations, against a small model of what the keeper promises."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from tests.keeper.place import Place, output, stream

FRAGMENTS: dict[str, tuple[str, ...]] = {"lines": ("outside",), "clicks": ("outside",), "joined": ("lines", "clicks")}
NODES = ("a", "b")


@dataclass
class Model:
    """The verbs over plain dictionaries. A verb returns its answer, or the type of the error it raises."""

    states: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, str] = field(default_factory=dict)
    claims: dict[str, list[tuple[dict[str, tuple[Any, Any]], int]]] = field(default_factory=dict)
    epochs: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    delivered: int = 0

    def enlist(self, node: str) -> int:
        for number, state in self.states.items():
            if self.nodes[number] == node and state == "starting":
                self.states[number] = "fenced"
        number = len(self.states) + 1
        self.states[number], self.nodes[number] = "starting", node
        return number

    def end(self, number: int, state: str) -> bool:
        was_live = self.states[number] == "starting"
        if was_live:
            self.states[number] = state
        return was_live

    def claim(self, fragment: str, epoch: int, spans: dict[str, tuple[Any, Any]], by: int) -> Any:
        if self.states[by] != "starting":
            return Fenced
        claims = self.claims.setdefault(fragment, [])
        if 1 <= epoch <= len(claims):
            return claims[epoch - 1]
        if epoch != len(claims) + 1:
            return BrokenInvariant
        for name, (after, through) in spans.items():
            start = claims[-1][0][name][1] if claims else (0 if name in FRAGMENTS else None)
            if after != start:
                return BrokenInvariant
            if name in FRAGMENTS and not after <= through <= len(self.epochs.get(name, [])):
                return BrokenInvariant
        claims.append((spans, by))
        return claims[-1]

    def publish(self, fragment: str, epoch: int, mark: str, by: int) -> Any:
        if self.states[by] != "starting":
            return Fenced
        epochs = self.epochs.setdefault(fragment, [])
        if epoch > len(self.claims.get(fragment, [])) or epoch > len(epochs) + 1:
            return BrokenInvariant
        if epoch == len(epochs) + 1:
            epochs.append((mark, by))
        return epochs[epoch - 1] == (mark, by), epochs[epoch - 1]

    def deliver(self, epoch: int, by: int) -> Any:
        if self.states[by] != "starting":
            return Fenced
        if epoch <= self.delivered:
            return None
        if epoch != self.delivered + 1 or epoch > len(self.epochs.get("joined", [])):
            return BrokenInvariant
        self.delivered = epoch
        return None


class Machine(RuleBasedStateMachine):
    make: Callable[[], Place]

    def __init__(self) -> None:
        super().__init__()
        self.place = type(self).make()
        self.keeper = self.place.open()
        self.model = Model()
        for name, inputs in FRAGMENTS.items():
            self.keeper.record_stream(stream(name, name, *(i for i in inputs if i in FRAGMENTS)))
        self.enlist("a")

    def teardown(self) -> None:
        self.place.close()

    def same(self, expected: Any, verb: Callable[[], Any]) -> Any:
        if isinstance(expected, type):
            with pytest.raises(expected):
                verb()
            return None
        return verb()

    def pick(self, which: int) -> Incarnation:
        """Mostly one of the newest: an old one is fenced, and there is little to be learned from it."""
        return Incarnation(max(1, len(self.model.states) - which))

    @rule(node=st.sampled_from(NODES))
    def enlist(self, node: str) -> None:
        assert self.keeper.enlist(node, code="") == self.model.enlist(node)

    @rule(which=st.integers(0, 2))
    def fence(self, which: int) -> None:
        by = self.pick(which)
        assert self.keeper.fence(by, "model") == self.model.end(by, "fenced")

    @rule(which=st.integers(0, 2))
    def leave(self, which: int) -> None:
        by = self.pick(which)
        self.keeper.leave(by)
        self.model.end(by, "left")

    @rule(
        fragment=st.sampled_from(sorted(FRAGMENTS)),
        offset=st.sampled_from([1, 1, 1, 1, 0, -1, 2]),
        steps=st.tuples(st.integers(-1, 3), st.integers(0, 2)),
        skew=st.sampled_from([0, 0, 0, 0, 1]),
        which=st.integers(0, 2),
    )
    def claim(self, fragment: str, offset: int, steps: tuple[int, int], skew: int, which: int) -> None:
        by = self.pick(which)
        claims = self.model.claims.get(fragment, [])
        epoch = max(1, len(claims) + offset)
        spans: dict[str, tuple[Any, Any]] = {}
        for name, step in zip(FRAGMENTS[fragment], steps, strict=False):
            start = claims[-1][0][name][1] if claims else (0 if name in FRAGMENTS else None)
            after = start if not skew else (start or 0) + skew
            spans[name] = (after, (after or 0) + step)
        expected = self.model.claim(fragment, epoch, spans, by)
        proposal = {name: Span(*span) for name, span in spans.items()}
        claim = self.same(expected, lambda: self.keeper.claim(fragment, EpochNumber(epoch), proposal, by=by))
        if claim is not None:
            assert ({n: (s.after, s.through) for n, s in claim.spans.items()}, claim.incarnation) == expected

    @rule(
        fragment=st.sampled_from(sorted(FRAGMENTS)),
        offset=st.sampled_from([1, 1, 1, 1, 0, -1, 2]),
        mark=st.sampled_from("xy"),
        which=st.integers(0, 2),
    )
    def publish(self, fragment: str, offset: int, mark: str, which: int) -> None:
        by = self.pick(which)
        epoch = max(1, len(self.model.epochs.get(fragment, [])) + offset)
        expected = self.model.publish(fragment, epoch, mark, by)
        outputs = {fragment: output(mark)}
        published = self.same(expected, lambda: self.keeper.publish(fragment, EpochNumber(epoch), outputs, by=by))
        if published is not None:
            found = published.epochs[fragment]
            assert (published.won, (Path(found.output.segments[0].path).stem, found.incarnation)) == expected

    @rule(offset=st.sampled_from([1, 1, 1, 0, 2]), which=st.integers(0, 2))
    def deliver(self, offset: int, which: int) -> None:
        by = self.pick(which)
        epoch = max(1, self.model.delivered + offset)
        expected = self.model.deliver(epoch, by)
        self.same(expected, lambda: self.keeper.record_delivery("sink", "joined", EpochNumber(epoch), by=by))

    @invariant()
    def the_records_are_the_models(self) -> None:
        heads = {name: epoch.epoch for name, epoch in self.keeper.heads().items()}
        assert heads == {name: len(epochs) for name, epochs in self.model.epochs.items() if epochs}
        assert {m.incarnation: m.state for m in self.keeper.members(live=False)} == self.model.states
        assert self.keeper.delivered("sink") == self.model.delivered
        for fragment, claims in self.model.claims.items():
            found = [
                ({name: (span.after, span.through) for name, span in claim.spans.items()}, claim.incarnation)
                for claim in self.keeper.claims(fragment)
            ]
            assert found == claims


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 40), ("postgresql", 12)])
def test_the_keeper_does_what_the_model_does(
    kind: str, examples: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = None if kind == "sqlite" else request.getfixturevalue("postgres").url
    numbers = itertools.count()

    def make() -> Place:
        folder = tmp_path / f"{next(numbers)}"
        folder.mkdir()
        return Place(folder, url)

    class OnThisDatabase(Machine):
        pass

    OnThisDatabase.make = staticmethod(make)
    run_state_machine_as_test(
        OnThisDatabase,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
