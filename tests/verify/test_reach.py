"""What can be computed again, and from which cut."""

from __future__ import annotations

from dataclasses import replace

from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import EpochNumber, Output
from rekindle.verify.reach import Reach, reach_of
from tests.verify.test_invariants import claim, epoch, point, sound

N = EpochNumber


def long(epochs: int, *, points: tuple[int, ...] = (), kept_from: int = 1, dropped: int = 0) -> Ledger:
    """``s`` takes one epoch of ``a`` each time; everything before ``kept_from`` was trimmed."""
    numbers = range(kept_from, epochs + 1)
    of_s = [epoch("s", n) for n in numbers]
    gap = Output((), 0, 0, "0:0:0", dropped=5)
    return replace(
        sound(),
        claims={"s": tuple(claim("s", n, a=(n - 1, n)) for n in numbers)},
        epochs={
            "a": tuple(epoch("a", n) for n in numbers),
            "s": tuple(replace(e, output=gap) if e.epoch == dropped else e for e in of_s),
        },
        safe_points={"s": tuple(point(p, 0) for p in points)},
    )


def told(reach: Reach) -> list[tuple[int, int | None, list[int], list[int]]]:
    """Of each stretch: the base, the safe point, the epochs that are computed, those that are compared."""
    return [
        (
            int(s.base),
            int(s.point.epoch) if s.point is not None else None,
            [int(step.claim.epoch) for step in s.steps],
            [int(step.claim.epoch) for step in s.steps if step.compared],
        )
        for s in reach.stretches
    ]


def test_a_state_is_rebuilt_from_the_newest_cut_before() -> None:
    assert told(reach_of(long(6), "s", range(1, 7), stateful=True)) == [
        (0, None, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    ]
    assert told(reach_of(long(6), "s", range(5, 7), stateful=True)) == [(0, None, [1, 2, 3, 4, 5, 6], [5, 6])]
    with_points = long(6, points=(2, 4))
    assert told(reach_of(with_points, "s", range(6, 7), stateful=True)) == [(4, 4, [5, 6], [6])]
    assert told(reach_of(with_points, "s", range(4, 7), stateful=True)) == [(2, 2, [3, 4, 5, 6], [4, 5, 6])]


def test_what_has_no_state_needs_no_cut() -> None:
    trimmed = long(6, kept_from=4, points=(5,))
    reach = reach_of(trimmed, "s", range(1, 7), stateful=False)
    assert told(reach) == [(3, None, [4, 5, 6], [4, 5, 6])] and reach.beyond == (1, 2, 3)


def test_what_was_trimmed_is_out_of_reach_and_why_is_said() -> None:
    reach = reach_of(long(6, kept_from=4, points=(5,)), "s", range(1, 7), stateful=True)
    assert told(reach) == [(5, 5, [6], [6])]
    assert reach.beyond == (1, 2, 3, 4, 5) and "claim of epoch 1 is not kept" in reach.why
    reach = reach_of(long(6, kept_from=4), "s", range(5, 7), stateful=True)
    assert not reach.stretches and "safe points are kept at no epoch" in reach.why


def test_inputs_that_are_not_all_kept() -> None:
    ledger = long(4)
    ledger = replace(ledger, epochs={**ledger.epochs, "a": ledger.epochs["a"][2:]})
    reach = reach_of(ledger, "s", range(1, 5), stateful=False)
    assert told(reach) == [(2, None, [3, 4], [3, 4])]
    assert reach.beyond == (1, 2) and "of its input 'a' are not all kept" in reach.why


def test_a_gap_is_a_cut_and_is_not_computed() -> None:
    reach = reach_of(long(5, dropped=3), "s", range(1, 6), stateful=True)
    assert told(reach) == [(0, None, [1, 2], [1, 2]), (3, None, [4, 5], [4, 5])] and not reach.beyond
    late = reach_of(long(5, kept_from=3, dropped=3), "s", range(5, 6), stateful=True)
    assert told(late) == [(3, None, [4, 5], [5])]


def test_a_bounded_memory_is_rebuilt_from_what_it_depends_on() -> None:
    ledger = long(8, kept_from=4)
    reach = reach_of(ledger, "s", range(1, 9), stateful=True, depends_on=lambda head: N(head - 1))
    assert told(reach) == [(3, None, [4, 5, 6, 7, 8], [6, 7, 8])] and reach.beyond == (1, 2, 3, 4, 5)
