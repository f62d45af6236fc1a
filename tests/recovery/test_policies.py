"""From where a replica joins, row by row; and what a policy may be declared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rekindle as rk
from rekindle.errors import DeclarationError, StateDamaged
from rekindle.keeper.records import EpochNumber
from rekindle.recovery import Policy
from rekindle.recovery.policy import Fork, Jump, Replay, Restore, Situation, Start

E = EpochNumber
NEW = Situation(published=E(0), claimed=E(0), oldest_claim=E(1), intact=True)
DEAD = Situation(published=E(9), claimed=E(10), oldest_claim=E(1))
KEPT = [rk.Rollback(), rk.Rollback(copies=0), rk.PassiveStandby(), rk.ActiveStandby()]


@pytest.mark.parametrize("policy", KEPT)
@pytest.mark.parametrize(
    ("now", "start"),
    [
        (NEW, Replay(E(0))),
        (DEAD, Replay(E(0))),
        (replace(DEAD, local=E(9)), Fork()),
        (replace(DEAD, local=E(9), safe=E(7)), Fork()),
        (replace(DEAD, local=E(7), safe=E(7)), Fork()),
        (replace(DEAD, local=E(6), safe=E(7)), Restore()),
        (replace(DEAD, safe=E(7)), Restore()),
        (replace(DEAD, safe=E(7), oldest_claim=E(7)), Restore()),
        (replace(DEAD, local=E(8), oldest_claim=E(7)), Fork()),
    ],
)
def test_the_furthest_checkpoint_is_where_those_that_keep_one_start(
    policy: Policy, now: Situation, start: Start
) -> None:
    assert policy.start(now) == start


@pytest.mark.parametrize("policy", KEPT)
def test_without_a_checkpoint_and_without_the_first_claims_there_is_no_start(policy: Policy) -> None:
    with pytest.raises(StateDamaged, match="no checkpoint is left"):
        policy.start(replace(DEAD, oldest_claim=E(2)))


@pytest.mark.parametrize(
    ("now", "start"),
    [
        (NEW, Replay(E(0))),
        (DEAD, Jump()),
        (replace(DEAD, local=E(9)), Jump()),
        (replace(DEAD, local=E(9), intact=True), Fork()),
        (replace(DEAD, intact=True), Jump()),
        (replace(DEAD, published=E(0), claimed=E(1)), Jump()),
    ],
)
def test_a_gap_jumps_after_a_death_and_only_then(now: Situation, start: Start) -> None:
    assert rk.Gap().start(now) == start


@pytest.mark.parametrize(
    ("now", "start"),
    [
        (NEW, Replay(E(0))),
        (replace(DEAD, depends_on=E(7)), Replay(E(6))),
        (replace(DEAD, depends_on=E(7), local=E(9)), Replay(E(6))),
        (replace(DEAD, depends_on=E(7), local=E(9), intact=True), Fork()),
        (replace(DEAD, depends_on=E(7), oldest_claim=E(7)), Replay(E(6))),
        (replace(DEAD, depends_on=E(10)), Replay(E(9))),
    ],
)
def test_upstream_backup_replays_what_the_state_depends_on(now: Situation, start: Start) -> None:
    assert rk.UpstreamBackup().start(now) == start


def test_upstream_backup_says_so_when_that_is_gone() -> None:
    with pytest.raises(StateDamaged, match="depends on epoch 6, whose claim was trimmed"):
        rk.UpstreamBackup().start(replace(DEAD, depends_on=E(6), oldest_claim=E(7)))


def test_what_a_policy_asks_for() -> None:
    assert [p.replicas for p in (rk.Gap(), rk.Rollback(), rk.UpstreamBackup())] == [1, 1, 1]
    assert rk.PassiveStandby().replicas == 2 and not rk.PassiveStandby().all_compute
    assert rk.ActiveStandby(3).replicas == 3 and rk.ActiveStandby().all_compute
    assert rk.Gap().guarantee == "at-most-once" and rk.UpstreamBackup().guarantee == "precise"
    assert rk.Rollback(copies=0).layers is None and rk.Gap().layers is None
    layers = rk.PassiveStandby(interval=2, stores=["/a", "/b"], copies=2).layers
    assert layers is not None and (layers.stores, layers.copies, layers.interval) == (("/a", "/b"), 2, 2.0)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: rk.ActiveStandby(1),
        lambda: rk.PassiveStandby(replicas=1),
        lambda: rk.PassiveStandby(copies=0),
        lambda: rk.Rollback(stores=["/a"], copies=2),
        lambda: rk.Rollback(copies=-1),
        lambda: rk.PassiveStandby(interval=-1),
        lambda: rk.Rollback(interval=float("nan")),
        lambda: rk.Settings(pool=-1),
        lambda: rk.Pipeline("p", recovery="rollback"),  # type: ignore[arg-type]
        lambda: rk.Pipeline("p").source("s", rk.sources.Rate(1), node="pool"),
    ],
)
def test_what_cannot_be_is_refused(declare: object) -> None:
    with pytest.raises(DeclarationError):
        declare()  # type: ignore[operator]
