"""Any sequence of epochs, deaths, joins, deliveries, safe points and turns of the worker that trims: what somebody may
need is there at every moment, and what nobody needs is gone once things have settled.

What is needed is worked out here by itself, from a memory of every claim and epoch that ever was.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from rekindle.keeper.records import EpochNumber, Span
from tests.node.household import WINDOW, Household

N = EpochNumber
NAMES = ("lines", "sums", "plain", "window", "tail")
SINKS = {"out": "sums", "ends": "tail"}
RETAIN_S = 20.0


class Machine(RuleBasedStateMachine):
    make: Callable[[], Household]

    def __init__(self) -> None:
        super().__init__()
        self.house = type(self).make()
        self.keeper = self.house.keeper
        self.other = self.keeper.enlist("other", code="")
        self.claims: dict[str, list[dict[str, Span]]] = defaultdict(list)
        self.published: dict[str, list[float]] = defaultdict(list)
        self.in_hand: dict[str, int] = {}  # of the other node; the first one is always where the head is
        self.reported: dict[str, int] = {}
        self.pinned: set[int] = set()
        self.everybody(3, 0, 1)

    def teardown(self) -> None:
        """Every run ends with the question what is kept: when all is old, and when the other node has died, too."""
        try:
            self.house.now_s += 3 * RETAIN_S
            self.settle()
            self.what_is_needed_is_there()
            self.die()
            self.settle()
            self.what_is_needed_is_there()
        finally:
            self.house.close()

    def head(self, name: str) -> int:
        return len(self.published[name])

    # -- what happens --------------------------------------------------------------------------------

    @rule(rounds=st.integers(1, 4), lag=st.sampled_from([0, 0, 2, 99]), keep=st.integers(1, 2))
    def everybody(self, rounds: int, lag: int, keep: int) -> None:
        """Life as usual. The other node keeps up, to within ``lag`` epochs."""
        for _ in range(rounds):
            for name in NAMES:
                self.epochs(name, None, 1)
            self.house.now_s += RETAIN_S / 4
        for sink, stream in SINKS.items():
            self.house.deliver(sink, stream)
        for name, epoch in self.in_hand.items():
            self.in_hand[name] = max(epoch, self.head(name) + 1 - lag) if lag < 99 else epoch
        self.safe_point(0, keep)

    @rule(name=st.sampled_from(NAMES), take=st.sampled_from([None, 0, 1, 2]), count=st.integers(1, 4))
    def epochs(self, name: str, take: int | None, count: int) -> None:
        for _ in range(count):
            if len(self.claims[name]) == self.head(name):
                self.claims[name].append(dict(self.house.claim(name, take=take).spans))
            self.house.publish(name, self.head(name) + 1)
            self.published[name].append(self.house.now_s)

    @rule(name=st.sampled_from(NAMES))
    def claim(self, name: str) -> None:
        if len(self.claims[name]) == self.head(name):
            self.claims[name].append(dict(self.house.claim(name).spans))

    @rule(seconds=st.sampled_from([1.0, RETAIN_S / 2, RETAIN_S, 3 * RETAIN_S]))
    def time_goes_by(self, seconds: float) -> None:
        self.house.now_s += seconds

    @rule(sink=st.sampled_from(sorted(SINKS)), all_of_it=st.booleans())
    def deliver(self, sink: str, all_of_it: bool) -> None:
        if all_of_it:
            self.house.deliver(sink, SINKS[sink])
        elif (epoch := self.keeper.delivered(sink) + 1) <= self.head(SINKS[sink]):
            self.keeper.record_delivery(sink, SINKS[sink], N(epoch), by=self.house.me)

    @rule(back=st.sampled_from([0, 0, 1, 3]), keep=st.integers(1, 2))
    def safe_point(self, back: int, keep: int) -> None:
        newest = self.keeper.safe_point("sums")
        if self.head("sums") - back > (newest.epoch if newest is not None else 0):
            self.house.safe_point("sums", self.head("sums") - back)
            self.keeper.retire_safe_points("sums", keep=keep, by=self.house.me)

    @rule(which=st.integers(0, 1))
    def pin(self, which: int) -> None:
        points = self.keeper.safe_points("sums")
        if which < len(points):
            self.keeper.pin("sums", points[which].epoch, "a snapshot")
            self.pinned.add(points[which].epoch)

    @rule()
    def unpin(self) -> None:
        for epoch in self.pinned:
            self.keeper.unpin("sums", N(epoch), "a snapshot")
        self.pinned.clear()

    # -- the other node ------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), which=st.integers(0, 2))
    def join(self, name: str, which: int) -> None:
        """It decides from where to start. Nobody is told yet."""
        starts = self.starts(name)
        self.in_hand[name] = starts[which % len(starts)]

    @rule(name=st.sampled_from(NAMES))
    def hesitate(self, name: str) -> None:
        if name not in self.in_hand:
            self.in_hand[name] = 0

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def catch_up(self, name: str, count: int) -> None:
        if self.in_hand.get(name):
            self.in_hand[name] = min(self.in_hand[name] + count, self.head(name) + 1)

    @rule()
    def die(self) -> None:
        self.keeper.fence(self.other, "model")
        self.other = self.keeper.enlist("other", code="")
        self.in_hand.clear()

    @rule()
    def beat(self) -> None:
        self.house.beat(**{name: self.head(name) + 1 for name in NAMES})

    def other_beats(self, times: int) -> None:
        for _ in range(times):
            self.house.beat_of(self.other, self.in_hand)

    # -- trimming ------------------------------------------------------------------------------------

    @rule(others=st.sampled_from([0, 1, 1, 2, 2]))
    def turn(self, others: int) -> None:
        self.beat()
        self.beat()
        self.other_beats(others)
        self.house.trim.turn()

    @rule(name=st.sampled_from(NAMES))
    def join_unheard(self, name: str) -> None:
        """It decides, and then its node says nothing while the others go on and trim."""
        self.join(name, 0)
        self.everybody(1, 99, 1)
        self.house.now_s += RETAIN_S
        for _ in range(3):
            self.turn(0)

    @rule()
    def trimmer_restarts(self) -> None:
        self.house.trim = self.house.trimmer()

    @rule()
    def settle(self) -> None:
        """Once everybody has reported twice, what is not needed is gone."""
        before, before_claims = self.house.oldest(), self.house.first_claims()
        for _ in range(3):
            self.house.trim.turn()
            for _ in range(2):
                self.beat()
                self.house.beat_of(self.other, self.in_hand)
        for name in NAMES:
            if not self.head(name):
                continue
            oldest = max(before[name], min(self.needed_of(name), self.head(name), self.first_young(name)))
            assert self.keeper.oldest(name) == oldest, name
            claim = max(1, min(self.since(name) - 1, oldest, len(self.claims[name]) - 1))
            assert self.house.first_claims()[name] == max(before_claims[name], claim), name
            assert [f for f in self.house.folders(name) if f < oldest] == []

    # -- what is needed ------------------------------------------------------------------------------

    def starts(self, name: str) -> list[int]:
        """The epochs that a replica may start with now."""
        head = self.head(name)
        if name == "sums":
            return [point.epoch + 1 for point in self.keeper.safe_points(name)] or [1]
        if name == "window":
            return [max(1, head - WINDOW + 1), max(1, head), head + 1]
        return [max(1, head), head + 1] if name == "tail" else [head + 1]

    def since(self, name: str) -> int:
        """The oldest epoch that a replica may have to compute."""
        pinned = [epoch + 1 for epoch in self.pinned] if name == "sums" else []
        in_hand = [self.in_hand[name]] if name in self.in_hand else []
        return max(1, min([*self.starts(name), *in_hand, *pinned]))

    def inputs_of(self, name: str, since: int) -> Iterator[tuple[str, int]]:
        """Each input of a fragment, with the oldest epoch of it that its epochs from ``since`` on take in."""
        for stream in self.house.inputs[name]:
            claims = self.claims[name]
            if since <= len(claims):
                yield stream, claims[since - 1][stream].after + 1
            else:
                yield stream, claims[-1][stream].through + 1 if claims else 1

    def needed_of(self, stream: str) -> int:
        needed = [self.since(stream)]
        for name in NAMES:
            needed += [oldest for taken, oldest in self.inputs_of(name, self.since(name)) if taken == stream]
        return min(needed + [self.keeper.delivered(sink) + 1 for sink, taken in SINKS.items() if taken == stream])

    def first_young(self, name: str) -> int:
        old = sum(published_s <= self.house.now_s - RETAIN_S for published_s in self.published[name])
        return old + 1

    @invariant()
    def what_is_needed_is_there(self) -> None:
        decided = {name: epoch for name, epoch in self.in_hand.items() if epoch}
        for name in NAMES:
            kept = [epoch.epoch for epoch in self.keeper.epochs(name, after=0)]
            head = self.head(name)
            assert kept == list(range(head - len(kept) + 1, head + 1)) and bool(kept) == bool(head)
            oldest = kept[0] if kept else 1
            assert oldest <= max(1, self.first_young(name))
            since = min([*self.starts(name), decided.get(name, head + 1), *self.pins_of(name)])
            assert oldest <= max(1, since), f"{name} would not recognise what it published"
            known = [claim.epoch for claim in self.keeper.claims(name)]
            assert known == list(range(max(1, len(self.claims[name]) - len(known) + 1), len(self.claims[name]) + 1))
            assert not known or known[0] <= max(1, since - 1, 1) or known[0] == 1
            for stream, needed in self.inputs_of(name, since):
                assert self.keeper.oldest(stream) <= needed, f"{name} from {since} on needs {stream} from {needed} on"
            folders = set(self.house.folders(name))
            assert set(kept) <= folders
        for sink, stream in SINKS.items():
            assert self.keeper.oldest(stream) <= self.keeper.delivered(sink) + 1

    def pins_of(self, name: str) -> list[int]:
        return [epoch + 1 for epoch in self.pinned] if name == "sums" else []


def test_nothing_needed_goes_and_nothing_else_stays(tmp_path: Path) -> None:
    numbers = itertools.count()

    class Here(Machine):
        pass

    def make() -> Household:
        return Household(tmp_path / f"{next(numbers)}" / "home", retain_s=RETAIN_S, careless=True)

    Here.make = staticmethod(make)
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=50,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
