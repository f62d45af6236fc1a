"""The rules, row by row, and what must hold of any row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.keeper.records import Incarnation
from rekindle.pipeline import Settings
from rekindle.supervisor.decide import (
    Action,
    Died,
    Drain,
    Fence,
    Forget,
    GiveUp,
    History,
    Kill,
    Life,
    Promote,
    Refuse,
    Seen,
    Standing,
    Start,
    backoff_s,
    decide,
)

SETTINGS = Settings(heartbeat_s=0.5, lease_s=10, start_s=120, zombie_s=60, restarts_max=3)
ONE = Incarnation(1)
LIFE = Life("a", ONE)
LEFT = replace(LIFE, standing=Standing.LEFT)
FENCED = replace(LIFE, standing=Standing.FENCED)
HUNG = replace(FENCED, hung=True)
WARM = Life("pool.1", Incarnation(5), ready=True)

ROWS: dict[str, tuple[list[Life], list[Action]]] = {
    "nothing there": ([], [Start("a")]),
    "all well": ([LIFE], []),
    "another with changed code is not out of the way": (
        [replace(LIFE, node="b", outdated=True, stale="changed", asked_s=1.0)],
        [],
    ),
    "another that is no longer wanted is not out of the way": (
        [replace(LIFE, node="b", asked_s=1.0)],
        [],
    ),
    "another that is no longer wanted is fenced, not in the way": (
        [replace(FENCED, node="b", seen=Seen.ELSEWHERE)],
        [Forget("b", ONE), Start("a")],
    ),
    "slow but beating": ([replace(LIFE, quiet_s=9.9)], []),
    "lease runs out": (
        [replace(LIFE, quiet_s=10.1)],
        [Fence("a", ONE, "no heartbeat for 10 s", hung=True, death=True)],
    ),
    "slow start": ([replace(LIFE, beaten=False, quiet_s=119)], []),
    "never up": (
        [replace(LIFE, beaten=False, quiet_s=121)],
        [Fence("a", ONE, "not up after 120 s", hung=True, death=True)],
    ),
    "lease runs out elsewhere": (
        [replace(LIFE, seen=Seen.ELSEWHERE, quiet_s=11)],
        [Fence("a", ONE, "no heartbeat for 10 s", hung=True, death=True)],
    ),
    "killed": (
        [replace(LIFE, seen=Seen.GONE, exit_code=-9)],
        [Fence("a", ONE, "killed by signal 9", death=True)],
    ),
    "gone, not a child": ([replace(LIFE, seen=Seen.GONE)], [Fence("a", ONE, "its process is gone", death=True)]),
    "refused": (
        [replace(LIFE, seen=Seen.GONE, exit_code=2)],
        [Fence("a", ONE, "exited with code 2", death=True), Refuse("a", ONE)],
    ),
    "killed while draining": (
        [replace(LIFE, seen=Seen.GONE, exit_code=-15, asked_s=1)],
        [Fence("a", ONE, "killed by signal 15", death=False)],
    ),
    "fenced, its JVM is left": (
        [replace(FENCED, seen=Seen.GONE, remains=True)],
        [Kill("a", ONE, "its process is gone")],
    ),
    "fenced, its JVM is being killed": ([replace(FENCED, seen=Seen.GONE, remains=True, killed=True)], []),
    "fenced, nothing left": ([replace(FENCED, seen=Seen.GONE)], [Forget("a", ONE), Start("a")]),
    "hung, just fenced": ([HUNG], [Start("a")]),
    "hung for long": ([replace(HUNG, over_s=60)], [Kill("a", ONE, "it is fenced"), Start("a")]),
    "hung, then ended, its JVM is left": (
        [replace(HUNG, seen=Seen.GONE, remains=True)],
        [Kill("a", ONE, "its process is gone"), Start("a")],
    ),
    "fenced elsewhere": ([replace(FENCED, seen=Seen.ELSEWHERE)], [Forget("a", ONE), Start("a")]),
    "left, still exiting": ([LEFT], []),
    "left, does not exit": ([replace(LEFT, over_s=10)], [Kill("a", ONE, "it left, but something of it lingers")]),
    "left, its JVM is still exiting": ([replace(LEFT, seen=Seen.GONE, remains=True, asked_s=1, over_s=1)], []),
    "left, its JVM does not exit": (
        [replace(LEFT, seen=Seen.GONE, remains=True, asked_s=1, over_s=10)],
        [Kill("a", ONE, "it left, but something of it lingers")],
    ),
    "left as asked": ([replace(LEFT, seen=Seen.GONE, asked_s=1)], [Forget("a", ONE), Start("a")]),
    "left unasked": ([replace(LEFT, seen=Seen.GONE, exit_code=0)], [Died("a", ONE, "exited with code 0"), Start("a")]),
    "code changed": ([replace(LIFE, stale="new code")], [Drain("a", ONE, "new code")]),
    "code changed, draining": ([replace(LIFE, stale="new code", asked_s=1)], []),
    "does not drain": ([replace(LIFE, asked_s=30)], [Fence("a", ONE, "not drained after 30 s")]),
    "did not drain": ([FENCED], [Kill("a", ONE, "it is fenced")]),
    "hangs while draining": (
        [replace(LIFE, asked_s=20, quiet_s=11)],
        [Fence("a", ONE, "no heartbeat for 10 s", hung=True)],
    ),
    "not wanted": ([LIFE, Life("b", Incarnation(2))], [Drain("b", Incarnation(2), "no longer wanted")]),
    "a warm one takes the place of one that was killed": (
        [replace(FENCED, seen=Seen.GONE, remains=True, killed=True), WARM],
        [Promote("a", WARM.incarnation)],
    ),
    "a warm one takes the place of one that hangs": ([HUNG, WARM], [Promote("a", WARM.incarnation)]),
    "one that is not warm yet does not": ([HUNG, replace(WARM, ready=False)], [Start("a")]),
    "one that has died itself does not": (
        [HUNG, replace(WARM, seen=Seen.GONE, exit_code=-9)],
        [Fence("pool.1", WARM.incarnation, "killed by signal 9", death=True), Start("a")],
    ),
    "one that runs other code does not": (
        [HUNG, replace(WARM, outdated=True, stale="new code")],
        [Drain("pool.1", WARM.incarnation, "new code")],
    ),
    "two of one node": (
        [LIFE, Life("a", Incarnation(2))],
        [Fence("a", ONE, "replaced by a newer incarnation", hung=True)],
    ),
}


def decided(lives: list[Life], now_s: float = 100.0, ending: bool = False, **histories: History) -> list[Action]:
    wanted = {"a", *(life.node for life in lives if life.node == WARM.node)}
    return decide(now_s, wanted, lives, histories, SETTINGS, drain_s=30, ending=ending)


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str) -> None:
    lives, actions = ROWS[row]
    assert decided(lives) == actions


def test_backoff_grows_and_is_waited_for() -> None:
    assert [backoff_s(n) for n in range(1, 8)] == [0, 0.5, 1, 2, 5, 5, 5]
    assert decided([], now_s=99.9, a=History(deaths=2, start_at_s=100.0)) == []
    assert decided([], now_s=100.0, a=History(deaths=2, start_at_s=100.0)) == [Start("a")]


def test_too_many_deaths_give_the_node_up_once() -> None:
    assert decided([], a=History(deaths=3)) == [GiveUp("a", 3)]
    assert decided([], a=History(deaths=3, given_up=True)) == []


def test_on_a_full_disk_nothing_starts_and_nobody_is_given_up_but_a_warm_node_is_promoted() -> None:
    def when_full(*lives: Life, deaths: int = 0) -> list[Action]:
        wanted = ("a", *(life.node for life in lives))
        return decide(100.0, wanted, lives, {"a": History(deaths=deaths)}, SETTINGS, drain_s=30, full=True)

    assert when_full() == when_full(deaths=3) == []
    assert when_full(WARM) == [Promote("a", WARM.incarnation)]


def test_the_first_node_of_a_place_comes_first_then_those_beside_it_then_the_pool() -> None:
    wanted = ("a", "a.2", "b", "pool.1")

    def starts(*lives: Life) -> list[str]:
        actions = decide(100.0, wanted, lives, {}, SETTINGS, drain_s=30)
        assert all(isinstance(action, Start) for action in actions)
        return [action.node for action in actions]

    a, second, b = Life("a", Incarnation(1)), Life("a.2", Incarnation(2)), Life("b", Incarnation(3))
    assert starts() == ["a", "b"]
    assert starts(a, b) == []
    assert starts(a, replace(b, ready=True)) == []
    assert starts(replace(a, ready=True), b) == ["a.2"]
    assert starts(replace(a, ready=True), second, replace(b, ready=True)) == []
    assert starts(*(replace(life, ready=True) for life in (a, second, b))) == ["pool.1"]
    assert starts(replace(second, ready=True), replace(b, ready=True)) == ["a"], "repair"
    assert starts(replace(b, ready=True)) == ["a"], "both were lost"


def test_two_deaths_take_two_warm_nodes_and_a_third_is_started() -> None:
    warm = [Life(f"pool.{n}", Incarnation(n), ready=True) for n in (1, 2)]
    actions = decide(100.0, ("a", "b", "c", "pool.1", "pool.2"), warm, {}, SETTINGS, drain_s=30)
    assert actions == [Promote("a", Incarnation(1)), Promote("b", Incarnation(2)), Start("c")]


def test_a_refused_node_is_not_started_again() -> None:
    assert decided([], a=History(deaths=1, refused=True)) == []


def test_the_end_drains_all_and_waits_for_nothing_hung() -> None:
    hung = Life("a", Incarnation(1), standing=Standing.FENCED, hung=True)
    live = Life("a", Incarnation(2))
    assert decided([hung, live], ending=True) == [
        Kill("a", Incarnation(1), "it is fenced"),
        Drain("a", Incarnation(2), "the run ends"),
    ]
    assert decided([], ending=True) == []


NAMES = ("a", "a.2", "b", "c", "pool.1")
durations = st.sampled_from([0.0, 5.0, 10.0, 10.1, 30.0, 60.0, 121.0])
lives_of = st.builds(
    Life,
    node=st.sampled_from(NAMES),
    incarnation=st.just(ONE),
    ready=st.booleans(),
    standing=st.sampled_from(Standing),
    seen=st.sampled_from(Seen),
    remains=st.booleans(),
    exit_code=st.sampled_from([None, 0, 1, 2, 6, -9]),
    stale=st.sampled_from(["", "new code"]),
    beaten=st.booleans(),
    quiet_s=durations,
    asked_s=st.none() | durations,
    over_s=durations,
    hung=st.booleans(),
    killed=st.booleans(),
    noted=st.booleans(),
)
worlds = st.lists(lives_of, max_size=6).map(
    lambda lives: [replace(life, incarnation=Incarnation(n)) for n, life in enumerate(lives, 1)]
)
histories_of = st.dictionaries(
    st.sampled_from(NAMES),
    st.builds(
        History,
        deaths=st.integers(0, 5),
        start_at_s=st.sampled_from([0.0, 99.0, 101.0]),
        given_up=st.booleans(),
        refused=st.booleans(),
    ),
)


@given(worlds, histories_of, st.sets(st.sampled_from(NAMES)), st.booleans())
def test_order_and_restraint(lives: list[Life], histories: dict[str, History], wanted: set[str], ending: bool) -> None:
    actions = decide(100.0, wanted, lives, histories, SETTINGS, drain_s=30, ending=ending)
    by_number = {life.incarnation: life for life in lives}
    starts = [action.node for action in actions if isinstance(action, Start)]
    assert len(starts) == len(set(starts))
    for node in starts:
        assert node in wanted
        assert not ending
        for life in lives:
            if life.node == node:  # nothing that may still work as this node is left, unless it is fenced and hung
                assert life.standing is not Standing.LIVE
                assert life.hung or life.seen is Seen.ELSEWHERE or not (life.seen is Seen.ALIVE or life.remains)
    for action in actions:
        if isinstance(action, Start | GiveUp):
            continue
        life = by_number[action.incarnation]
        if isinstance(action, Promote):
            assert life.node == "pool.1" and life.ready and life.standing is Standing.LIVE and action.node in wanted
            assert not any(other.node == action.node and other.standing is Standing.LIVE for other in lives)
            continue
        assert life.node == action.node
        if isinstance(action, Kill):  # never before it is fenced or has left, never on another host
            assert life.standing is not Standing.LIVE
            assert life.seen is not Seen.ELSEWHERE
        if isinstance(action, Fence | Drain):
            assert life.standing is Standing.LIVE
        if isinstance(action, Forget):
            assert life.seen is not Seen.ALIVE
            assert life.seen is Seen.ELSEWHERE or not life.remains


@given(worlds, st.sets(st.sampled_from(NAMES)))
def test_what_is_alive_and_beats_is_left_alone(lives: list[Life], wanted: set[str]) -> None:
    healthy = [replace(life, standing=Standing.LIVE, seen=Seen.ALIVE, quiet_s=10.0, stale="", asked_s=None)
               for life in lives]  # fmt: skip
    newest = {life.node: life for life in healthy}
    actions = decide(100.0, wanted, newest.values(), {}, SETTINGS, drain_s=30)
    assert not [action for action in actions if isinstance(action, Fence | Kill)]
    assert {a.node for a in actions if isinstance(a, Drain)} == set(newest) - wanted


@given(worlds, histories_of, st.sets(st.sampled_from(NAMES)), st.booleans())
def test_carrying_it_out_comes_to_rest(
    lives: list[Life], histories: dict[str, History], wanted: set[str], ending: bool
) -> None:
    """Against a world that does as it is told, a few rounds are enough, and the end is what was wanted."""
    world = {life.incarnation: life for life in lives}
    histories = dict(histories)
    number = len(lives)
    for _ in range(20):
        actions = decide(100.0, wanted, world.values(), histories, SETTINGS, drain_s=30, ending=ending)
        if not actions:
            break
        for action in actions:
            history = histories.get(action.node, History())
            match action:
                case Start(node):
                    number += 1
                    world[Incarnation(number)] = Life(node, Incarnation(number), ready=True)
                case Promote(node, n):
                    world[n] = replace(world[n], node=node)
                case Fence(_, n, _, hung, death):
                    world[n] = replace(world[n], standing=Standing.FENCED, hung=hung, over_s=60.0, noted=True)
                    if death:
                        histories[action.node] = replace(history, deaths=history.deaths + 1)
                case Kill(_, n, _):
                    world[n] = replace(world[n], seen=Seen.GONE, remains=False)
                case Drain(_, n, _):
                    world[n] = replace(world[n], standing=Standing.LEFT, seen=Seen.GONE, remains=False, asked_s=0.0)
                case Died(_, n, _):
                    world[n] = replace(world[n], noted=True)
                    histories[action.node] = replace(history, deaths=history.deaths + 1)
                case Forget(_, n):
                    del world[n]
                case GiveUp(node, _):
                    histories[node] = replace(history, given_up=True)
                case Refuse(node, _):
                    histories[node] = replace(history, refused=True)
    else:
        pytest.fail(f"still acting: {actions}")
    running = [life.node for life in world.values() if life.standing is Standing.LIVE]
    assert len(running) == len(set(running))
    for life in world.values():
        if life.standing is Standing.LIVE and life.asked_s is None:
            assert life.node in wanted
            assert not ending
