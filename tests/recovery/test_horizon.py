"""The horizon, row by row: which policy needs what, and what that means for streams and claims."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rekindle.keeper.records import Claim, EpochNumber, Incarnation, Span
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Policy, Rollback, UpstreamBackup
from rekindle.recovery.horizon import Footing, Horizon, Need, horizon, needed_from

N = EpochNumber
LAYERS: list[Policy] = [Rollback(), PassiveStandby(), ActiveStandby()]
NONE_SHIPPED: list[Policy] = [Rollback(copies=0), ActiveStandby(copies=0)]


def needed(policy: Policy | None, head: int, depends_on: int | None = None, **footing: Sequence[int]) -> int:
    def asked() -> EpochNumber:
        assert depends_on is not None, "nobody should have asked"
        return N(depends_on)

    given = {name: tuple(map(N, epochs)) for name, epochs in footing.items()}
    return needed_from(policy, Footing(N(head), **given), asked)


@pytest.mark.parametrize("head", [0, 1, 7])
def test_what_keeps_no_state_goes_on_after_its_head(head: int) -> None:
    assert needed(None, head) == head + 1
    assert needed(None, head, safe=[3]) == head + 1


@pytest.mark.parametrize(("head", "since"), [(0, 1), (1, 1), (7, 7)])
def test_gap_may_fork_what_spark_has_committed(head: int, since: int) -> None:
    assert needed(Gap(), head) == since
    assert needed(Gap(), head, safe=[3]) == since, "left from when it had another policy"


@pytest.mark.parametrize("policy", LAYERS, ids=repr)
def test_layers_need_what_comes_after_the_oldest_safe_point(policy: Policy) -> None:
    assert needed(policy, 9) == 1
    assert needed(policy, 9, safe=[4]) == 5
    assert needed(policy, 9, safe=[4, 6, 8]) == 5
    assert needed(policy, 9, safe=[2, 6, 8], pinned=[2]) == 3


@pytest.mark.parametrize("policy", NONE_SHIPPED, ids=repr)
def test_without_layers_everything_is_needed(policy: Policy) -> None:
    assert needed(policy, 9) == 1
    assert needed(policy, 9, safe=[4]) == 1, "safe points of another policy may be of layers that are gone"


def test_upstream_backup_needs_what_its_state_depends_on() -> None:
    assert needed(UpstreamBackup(), 9, 4) == 4
    assert needed(UpstreamBackup(), 9, 10) == 9, "a fork may stand before the head"
    assert needed(UpstreamBackup(), 0, 1) == 1


@pytest.mark.parametrize("policy", [None, Gap(), Rollback(), UpstreamBackup()], ids=repr)
def test_pins_and_replicas_behind_hold_every_policy_back(policy: Policy | None) -> None:
    assert needed(policy, 9, 8, safe=[7], pinned=[4]) == 5
    assert needed(policy, 9, 8, safe=[7], in_hand=[3, 10]) == 3
    assert needed(policy, 9, 8, safe=[7], in_hand=[30]) > 7, "who runs ahead pushes nobody"
    assert needed(policy, 9, 8, safe=[7], in_hand=[0, 10]) == 1, "who has not made up his mind may start anywhere"


def claim(epoch: int, **spans: tuple[int, int]) -> Claim:
    return Claim("f", N(epoch), {name: Span(*span) for name, span in spans.items()}, Incarnation(1))


def source(name: str, since: int, *more: str, all_claims: bool = False) -> Need:
    before = claim(since - 1, **{name: (0, 0)}) if since > 1 else None
    return Need(name, (name, *more), (), N(since), None, before, all_claims)


def test_a_stream_is_needed_by_its_own_fragment_its_readers_and_its_sinks() -> None:
    lines = source("lines", 100, "lines_rejected")
    sums = Need("sums", ("sums",), ("lines",), N(8), claim(8, lines=(40, 43)), claim(7, lines=(36, 40)))
    slow = Need("slow", ("slow",), ("lines", "sums"), N(3), None, claim(2, lines=(50, 60), sums=(1, 2)))
    assert horizon([lines], []) == Horizon({"lines": N(100), "lines_rejected": N(100)}, {"lines": N(99)})
    found = horizon([lines, sums, slow], [])
    assert found.epochs == {"lines": 41, "lines_rejected": 100, "sums": 3, "slow": 3}
    assert found.claims == {"lines": 99, "sums": 7, "slow": 2}
    sinks = [("lines", N(30)), ("lines", N(31)), ("slow", N(9)), ("lines_rejected", N(0)), ("elsewhere", N(1))]
    assert horizon([lines, sums, slow], sinks).epochs == {"lines": 30, "lines_rejected": 0, "sums": 3, "slow": 3}


def test_a_reader_without_claims_keeps_its_inputs() -> None:
    new = Need("new", ("new",), ("lines",), N(1), None, None)
    assert horizon([source("lines", 100), new], []).epochs["lines"] == 1
    late = Need("late", ("late",), ("lines",), N(1), claim(1, lines=(60, 61)), None)
    assert horizon([source("lines", 100), late], []).epochs["lines"] == 61
    more = Need("more", ("more",), ("lines", "clicks"), N(5), None, claim(4, lines=(60, 61)))
    found = horizon([source("lines", 100), source("clicks", 50), more], [])
    assert found.epochs == {"lines": 62, "clicks": 1, "more": 5}


def test_an_input_that_only_the_claim_names_is_needed() -> None:
    cut = Need("cut", ("cut",), ("other",), N(5), None, claim(4, lines=(2, 3)))
    assert horizon([source("lines", 100), cut], []).epochs["lines"] == 4


def test_a_history_is_kept_whole() -> None:
    assert horizon([source("files", 100, all_claims=True)], []) == Horizon({"files": N(100)}, {"files": N(1)})


def test_only_what_two_agree_on_goes() -> None:
    one = Horizon({"a": N(5), "b": N(9)}, {"a": N(4), "new": N(1)})
    other = Horizon({"a": N(7), "b": N(2), "c": N(4)}, {"a": N(3)})
    assert one.and_also(other) == other.and_also(one) == Horizon({"a": N(5), "b": N(2)}, {"a": N(3)})
