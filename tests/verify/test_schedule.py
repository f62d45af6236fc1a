from __future__ import annotations

from collections import Counter

import pytest

from rekindle.errors import DeclarationError
from rekindle.node.steps import STEPS
from rekindle.verify.faults import KINDS, MEANING
from rekindle.verify.schedule import EARLIEST, LATEST, parse_kinds, schedule


def test_the_same_seed_gives_the_same_schedule() -> None:
    one = schedule(7, 20, KINDS, per_run=3)
    assert one == schedule(7, 20, KINDS, per_run=3)
    assert one != schedule(8, 20, KINDS, per_run=3)


def test_a_longer_schedule_begins_like_a_shorter_one() -> None:
    assert schedule(7, 20, KINDS, per_run=3)[:5] == schedule(7, 5, KINDS, per_run=3)


def test_every_kind_and_every_step_comes_equally_often() -> None:
    faults = [fault for run in schedule(1, 2 * len(KINDS), KINDS, per_run=1) for fault in run]
    assert set(Counter(fault.kind for fault in faults).values()) == {2}
    steps = [fault.step for run in schedule(1, 3 * len(STEPS), ("step",), per_run=1) for fault in run]
    assert Counter(steps) == dict.fromkeys(STEPS, 3)


def test_faults_of_a_run_are_in_order_and_in_the_middle_of_the_output() -> None:
    for run in schedule(3, 50, KINDS, per_run=4):
        shares = [fault.at for fault in run]
        assert shares == sorted(shares) and shares[0] >= EARLIEST and shares[-1] <= LATEST
        assert all((fault.kind == "step") == bool(fault.step) for fault in run)
        assert all(0 <= fault.pick < 1 for fault in run)


def test_apart_each_run_has_one_kind() -> None:
    runs = schedule(1, len(KINDS), KINDS, per_run=3, apart=True)
    assert [{fault.kind for fault in run} for run in runs] == [{kind} for kind in KINDS]


def test_every_kind_says_what_it_means() -> None:
    assert set(MEANING) == set(KINDS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill-nod", "did you mean 'kill-node'"),
        ("kill-node,flood", "there are: kill-node"),
        ("", "there are"),
        (",", "there are"),
    ],
)
def test_an_unknown_kind_is_refused_with_what_there_is(text: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        parse_kinds(text)
    assert said in refused.value.hint


def test_kinds_are_taken_once_in_their_order() -> None:
    assert parse_kinds("step, kill-all,step") == ("step", "kill-all")
