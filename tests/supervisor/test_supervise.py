"""The supervisor with real processes and a real keeper: what dies or hangs is replaced, in the right order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import DeclarationError, Fenced, HomeInUse, KeeperUnavailable
from rekindle.home import HomeLock
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EpochNumber, Incarnation
from rekindle.recovery import ActiveStandby
from rekindle.supervisor.processes import Processes, start_ticks, this_host
from rekindle.supervisor.supervise import Supervisor
from tests.supervisor.world import SETTINGS, World, alive, until

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    worlds: list[World] = []

    def build(**options: Any) -> World:
        worlds.append(World(tmp_path, **options))
        return worlds[-1]

    yield build
    for world in worlds:
        world.close()


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


class Clock:
    """The time that passes, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class Away:
    """A keeper that does not answer while ``gone``."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.gone = False

    def __getattr__(self, name: str) -> Any:
        if self.gone:
            raise KeeperUnavailable("the keeper is away")
        return getattr(self._keeper, name)


def is_away(supervisor: Supervisor) -> bool:
    return supervisor.keeper_away_since_s is not None


def test_all_nodes_are_started_and_drained(make: Callable[..., World]) -> None:
    world = make(nodes=("a", "b"))
    supervisor = world.supervisor()
    until(supervisor, lambda: supervisor.all_ready, "both are ready")
    a, b = world.member("a"), world.member("b")
    assert a.host == this_host()
    assert a.pid_started == start_ticks(a.pid)
    assert supervisor.drain() == []
    assert world.keeper.members() == []
    assert {member.state for member in world.keeper.members(live=False)} == {"left"}
    assert not alive(a.pid)
    assert not alive(world.child(b))
    assert world.chain("a") == ["node_started", "node_ready", "node_asked_to_drain", "node_left"]


def test_a_killed_node_is_replaced_after_all_of_it_is_gone(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    child = world.child(old)
    assert alive(child)
    os.kill(old.pid, signal.SIGKILL)
    new = until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert not alive(child)
    assert world.saw(new) == {new.incarnation}  # nothing of the old one was left when the new one started
    states = {member.incarnation: member.state for member in world.keeper.members(live=False)}
    assert states == {old.incarnation: "fenced", new.incarnation: "running"}
    died = ["node_died", "node_fenced", "node_killed", "node_started", "node_replaced"]
    until(supervisor, lambda: "node_ready" in world.chain()[2:], "it is ready")
    assert world.chain() == ["node_started", "node_ready", *died, "node_ready"]
    (event,) = world.events("node_died")
    assert event.detail["noticed"] == "killed by signal 9"
    assert event.detail["exit_code"] == -9
    assert supervisor.restarts == 1


def test_the_fence_comes_before_the_kill_and_both_before_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the events, which are written afterwards: by what is true when each thing is done."""
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    processes = supervisor._processes
    seen: list[tuple[str, Any]] = []
    kill, start = processes.kill, processes.start

    def on_kill(incarnation: Incarnation, leader: Any) -> int:
        seen.append(("kill", {m.incarnation: m.state for m in world.keeper.members(live=False)}[incarnation]))
        return 0 if len(seen) == 1 else kill(incarnation, leader)  # the first kill takes its time

    def on_start(incarnation: Incarnation, *args: Any) -> Any:
        seen.append(("start", alive(world.child(old))))
        return start(incarnation, *args)

    monkeypatch.setattr(processes, "kill", on_kill)
    monkeypatch.setattr(processes, "start", on_start)
    os.kill(old.pid, signal.SIGKILL)
    until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert seen == [("kill", "fenced"), ("kill", "fenced"), ("start", False)]


def test_a_hung_node_is_fenced_and_replaced_and_finds_out_when_it_wakes(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    world.hang(old)
    new = until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert alive(old.pid)
    (event,) = world.events("node_died")
    assert event.detail["noticed"] == "no heartbeat for 2 s"
    assert event.detail["exit_code"] is None
    watched = supervisor._roster.known[old.incarnation].watched
    assert watched is not None
    os.kill(old.pid, signal.SIGCONT)
    until(None, watched.ended, "the old one ended by itself")
    assert watched.exit_code() == 6
    until(supervisor, lambda: not alive(world.child(old)), "its child is gone")
    until(supervisor, lambda: old.incarnation not in supervisor._roster.known, "it is forgotten")
    assert world.member().incarnation == new.incarnation
    assert supervisor.restarts == 1


def test_a_hung_node_is_killed_in_the_end(make: Callable[..., World]) -> None:
    world = make(settings=replace(SETTINGS, zombie_s=0.5))
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    world.hang(old)
    until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    until(supervisor, lambda: not alive(old.pid) and not alive(world.child(old)), "the old ones are gone")
    assert world.events("node_killed")


def test_a_node_stopped_in_a_transaction_does_not_hold_up_the_keeper_for_ever(world: World) -> None:
    keeper = open_keeper(None, home=world.home, patience_s=0.2)
    supervisor = world.supervisor(keeper=keeper)
    old = until(supervisor, world.beating, "it beats")
    world.tell("a", "freeze")
    until(None, (world.control / f"a-{old.incarnation}.frozen").exists, "it is stopped with the database locked")
    with pytest.raises(KeeperUnavailable):
        keeper.fence(old.incarnation, "a test")
    until(supervisor, lambda: not alive(old.pid) and not alive(world.child(old)), "it is killed, with its child")
    until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    (event,) = world.events("node_killed")
    assert event.detail["why"] == "it was stopped while it held the keeper"
    keeper.close()


def test_a_slow_node_that_beats_is_left_alone_and_a_mute_one_is_not(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    mute = world.tell("a", "mute")
    until(supervisor, lambda: world.events("node_fenced"), "it is fenced")
    mute.unlink()
    assert until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")


def test_a_crash_loop_is_given_up_while_others_go_on(make: Callable[..., World]) -> None:
    world = make(nodes=("a", "b"))
    world.tell("a", "exit", "1")
    supervisor = world.supervisor()
    until(supervisor, lambda: supervisor.given_up == ("a",), "a is given up")
    b = until(supervisor, lambda: world.beating("b"), "b beats")
    assert not supervisor.nothing_left
    assert supervisor.all_ready
    assert [event.detail["deaths"] for event in world.events("node_died")] == [1, 2, 3]
    assert world.chain("a")[-1] == "node_given_up"
    (failure,) = world.keeper.failures()
    assert failure.subject == "node a"
    assert "node a cannot" in failure.traceback
    supervisor.step(0)
    assert world.member("b").incarnation == b.incarnation


def test_the_log_of_a_given_up_node_tells_no_password(world: World) -> None:
    world.tell("a", "exit", "1")
    supervisor = world.supervisor(keeper_url="postgresql://me:hun%2Fter2@127.0.0.1/x")
    until(supervisor, lambda: supervisor.nothing_left, "a is given up")
    (failure,) = world.keeper.failures()
    assert "postgresql://me:***@127.0.0.1/x" in failure.traceback


def test_progress_in_between_forgives_a_death(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.tell("a", "exit", "1")
    supervisor = world.supervisor()
    steps = iter(range(10_000))
    monkeypatch.setattr(supervisor, "_progress_of", lambda node: next(steps))
    until(supervisor, lambda: len(world.events("node_died")) > SETTINGS.restarts_max + 1, "it dies often")
    assert supervisor.given_up == ()
    assert {event.detail["deaths"] for event in world.events("node_died")} == {1}


def test_a_declaration_error_ends_the_run(world: World) -> None:
    world.tell("a", "exit", "2")
    supervisor = world.supervisor()
    with pytest.raises(DeclarationError) as caught:
        until(supervisor, lambda: False, "it refuses")
    assert "node a cannot" in caught.value.detail
    assert supervisor.drain() == []
    assert len(world.events("node_started")) == 1
    assert supervisor.restarts == 0


def test_a_refusal_where_a_node_was_ready_before_is_a_death_like_any_other(make: Callable[..., World]) -> None:
    world = make(nodes=("a", "b"))
    supervisor = world.supervisor()
    until(supervisor, lambda: supervisor.all_ready, "both are ready")
    world.tell("a", "exit", "2")
    os.kill(world.member("a").pid, signal.SIGKILL)
    until(supervisor, lambda: supervisor.given_up == ("a",), "it is given up")
    assert world.beating("b") is not None and not supervisor.nothing_left
    assert world.events("node_refused") == []


def test_a_command_that_is_not_there_is_given_up(world: World) -> None:
    world.command = ["/no_such_command"]
    supervisor = world.supervisor()
    until(supervisor, lambda: supervisor.nothing_left, "it is given up")
    assert len(world.events("node_not_started")) == SETTINGS.restarts_max


def test_on_a_full_disk_nothing_is_started_and_no_death_counts(world: World) -> None:
    full = True
    supervisor = world.supervisor(is_full=lambda: full)
    until(supervisor, lambda: world.events("disk_full"), "the disk is full")
    assert world.chain("a") == []
    for _ in range(SETTINGS.restarts_max + 1):
        full = False
        member = until(supervisor, world.beating, "it is started once there is room")
        full = True
        supervisor.step(0)
        os.kill(member.pid, signal.SIGKILL)
        until(supervisor, lambda: not world.keeper.members(), "its death is noticed")
        for _ in range(5):
            supervisor.step(0.02)
        assert world.keeper.members() == []
    assert [event.detail["deaths"] for event in world.events("node_died")] == [0] * (SETTINGS.restarts_max + 1)
    assert supervisor.given_up == ()


def test_a_supervisor_that_was_held_up_kills_nobody(world: World) -> None:
    clock = Clock()
    supervisor = world.supervisor(clock=clock)
    old = until(supervisor, world.beating, "it beats")
    world.hang(old)  # so that no beat can come to its help
    supervisor.step(0)
    clock.ahead_s += 100 * SETTINGS.lease_s
    supervisor.step(0)
    assert world.events("supervisor_held_up")
    assert not world.events("node_fenced")
    os.kill(old.pid, signal.SIGCONT)
    beats = world.member().beats
    until(supervisor, lambda: world.member().beats > beats, "it beats again")
    assert world.member().incarnation == old.incarnation


def test_a_keeper_that_was_away_costs_nobody_the_lease(world: World) -> None:
    clock, keeper = Clock(), Away(world.keeper)
    supervisor = world.supervisor(clock=clock, keeper=keeper)
    old = until(supervisor, world.beating, "it beats")
    world.hang(old)
    supervisor.step(0)
    for _ in range(10):  # each time too short to count as a gap
        keeper.gone = True
        clock.ahead_s += SETTINGS.lease_s * 0.4
        supervisor.step(0)
        assert is_away(supervisor)
        keeper.gone = False
        supervisor.step(0)
        assert not is_away(supervisor)
    assert not world.events("supervisor_held_up")
    assert not world.events("node_fenced")
    os.kill(old.pid, signal.SIGCONT)


def test_a_node_that_dies_while_the_keeper_is_away_is_not_replaced_before_it_is_fenced(world: World) -> None:
    keeper = Away(world.keeper)
    supervisor = world.supervisor(keeper=keeper)
    old = until(supervisor, world.beating, "it beats")
    keeper.gone = True
    os.kill(old.pid, signal.SIGKILL)
    until(None, lambda: not alive(old.pid), "it is dead")
    for _ in range(3):
        supervisor.step(0.05)
    assert list(supervisor._roster.known) == [old.incarnation]
    keeper.gone = False
    until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert [e.detail["deaths"] for e in world.events("node_died")] == [1]


def test_a_drain_without_a_keeper_kills_in_the_end(world: World) -> None:
    keeper = Away(world.keeper)
    supervisor = world.supervisor(keeper=keeper)
    world.tell("a", "stubborn")
    old = until(supervisor, world.beating, "it beats")
    keeper.gone = True
    assert supervisor.drain(0.3) == ["a"]
    until(None, lambda: not alive(old.pid) and not alive(world.child(old)), "all is gone")


def test_a_node_that_does_not_drain_is_fenced_and_killed(world: World) -> None:
    supervisor = world.supervisor()
    world.tell("a", "stubborn")
    old = until(supervisor, world.beating, "it beats")
    told: list[list[str]] = []
    assert supervisor.drain(0.3, progress=lambda nodes: told.append(list(nodes))) == ["a"]
    assert told[0] == ["a"]
    assert not alive(old.pid)
    assert not alive(world.child(old))
    assert [member.state for member in world.keeper.members(live=False)] == ["fenced"]
    assert world.chain()[-2:] == ["node_fenced", "node_killed"]


def test_a_drain_can_be_hurried(world: World) -> None:
    supervisor = world.supervisor()
    world.tell("a", "stubborn")
    old = until(supervisor, world.beating, "it beats")
    assert supervisor.drain(10_000, hurry=lambda: True) == ["a"]
    assert not alive(old.pid)


def test_a_node_that_leaves_unasked_is_started_again(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    os.kill(old.pid, signal.SIGTERM)
    until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert world.events("node_died")[0].detail["noticed"] == "exited with code 0"


def test_a_killed_supervisor_stops_nothing_and_the_next_one_adopts(world: World, tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/supervisor/fake_run.py"), str(tmp_path), "v1"], start_new_session=True
    )
    try:
        old = until(None, world.beating, "it beats")
        with pytest.raises(HomeInUse):
            HomeLock(world.home)
    finally:
        first.kill()
        first.wait()
    beats = world.member().beats
    until(None, lambda: world.member().beats > beats + 5, "it goes on")
    lock = HomeLock(world.home)
    supervisor = world.supervisor()
    supervisor.step(0)
    beats = world.member().beats
    until(supervisor, lambda: world.member().beats > beats + 5, "it goes on")
    assert world.member().pid == old.pid
    assert [(e.detail["incarnation"], e.detail["pid"]) for e in world.events("supervisor_adopted")] == [
        (old.incarnation, old.pid)
    ]
    assert supervisor.all_ready
    os.kill(old.pid, signal.SIGKILL)  # not a child of this supervisor, and noticed all the same
    new = until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert world.saw(new) == {new.incarnation}
    assert supervisor.drain() == []
    lock.release()


def test_everything_killed_at_once_and_the_jvm_left(world: World, tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/supervisor/fake_run.py"), str(tmp_path), "v1"], start_new_session=True
    )
    try:
        old = until(None, world.beating, "it beats")
    finally:
        first.kill()
        first.wait()
    os.kill(old.pid, signal.SIGKILL)
    until(None, lambda: not alive(old.pid), "it is dead")
    assert alive(world.child(old))
    supervisor = world.supervisor()
    new = until(supervisor, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert not alive(world.child(old))
    assert world.saw(new) == {new.incarnation}


def test_an_incarnation_whose_process_was_never_started(world: World) -> None:
    lost = world.keeper.enlist("a", code="v1")
    supervisor = world.supervisor()
    until(supervisor, lambda: world.beating(but=lost), "the new one beats")
    assert [e.detail["incarnation"] for e in world.events("node_fenced")] == [lost]


def test_a_process_whose_supervisor_died_before_it_was_presented_is_found(
    make: Callable[..., World], tmp_path: Path
) -> None:
    world = make(settings=replace(SETTINGS, start_s=2.0))
    incarnation = world.keeper.enlist("a", code="v1")
    earlier = Processes(world.home.id)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    watched = earlier.start(incarnation, command, tmp_path / "log", dict(os.environ))
    until(None, earlier.incarnations, "its mark can be read")  # a moment after its start
    supervisor = world.supervisor()
    supervisor.step(0)
    assert [event.detail["pid"] for event in world.events("supervisor_adopted")] == [watched.pid]
    assert world.member().pid == watched.pid
    until(supervisor, lambda: world.beating(but=incarnation), "it never beats, and the new one does")
    assert world.events("node_fenced")[0].detail["why"] == "not up after 2 s"
    earlier.forget(watched)
    earlier.close()


def test_what_failed_is_tried_again_once_its_failure_is_cleared(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    world.keeper.record_failure("x", EpochNumber(1), reason="r", traceback="t", by=old.incarnation)
    failed = world.tell("a", "failed", "x")
    until(supervisor, lambda: world.member().report.get("failed"), "it says so")
    supervisor.step(0)
    assert not world.events("node_asked_to_drain")
    supervisor.close()
    world.keeper.clear_failures()
    second = world.supervisor()
    until(second, lambda: world.events("node_asked_to_drain"), "it is drained")
    failed.unlink()
    until(second, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert not world.events("node_died")


def test_other_code_is_drained_and_replaced(world: World) -> None:
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    supervisor.close()
    second = world.supervisor(code="v2")
    new = until(second, lambda: world.beating(but=old.incarnation), "the new one beats")
    assert new.code == "v2"
    assert {m.incarnation: m.state for m in world.keeper.members(live=False)}[old.incarnation] == "left"
    assert not world.events("node_died")
    assert world.events("node_asked_to_drain")[0].detail["why"] == "the pipeline's code has changed"


def test_a_node_that_is_no_longer_wanted_is_drained(make: Callable[..., World]) -> None:
    both = make(nodes=("a", "b"))
    supervisor = both.supervisor()
    until(supervisor, lambda: supervisor.all_ready, "both are ready")
    a, b = both.member("a"), both.member("b")
    supervisor.close()
    world = make(nodes=("a",))
    second = world.supervisor()
    until(second, lambda: not alive(b.pid), "b is gone")
    until(second, lambda: list(second._roster.known) == [a.incarnation], "only a is left")
    assert world.member("a").pid == a.pid


def test_nodes_elsewhere_are_judged_by_their_lease_and_never_signalled(world: World) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        ticks = start_ticks(bystander.pid)
        assert ticks is not None
        there = world.keeper.enlist("a", code="v1")
        world.keeper.present(there, host="elsewhere", pid=bystander.pid, pid_started=ticks)
        world.keeper.beat(there, {"phase": "ready"})
        supervisor = world.supervisor()
        supervisor.step(0)
        assert supervisor.all_ready
        assert world.member().incarnation == there
        until(supervisor, lambda: world.beating(but=there), "its lease runs out and one is started here")
        assert world.events("node_fenced")[0].detail["why"] == "no heartbeat for 2 s"
        assert supervisor.drain() == []
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_zombie_that_an_earlier_supervisor_left_is_dealt_with(make: Callable[..., World]) -> None:
    world = make(settings=replace(SETTINGS, zombie_s=0.5))
    supervisor = world.supervisor()
    old = until(supervisor, world.beating, "it beats")
    world.hang(old)
    supervisor.close()
    world.keeper.fence(old.incarnation, "by an earlier supervisor")
    second = world.supervisor()
    until(second, lambda: world.beating(but=old.incarnation), "the new one beats")
    until(second, lambda: not alive(old.pid) and not alive(world.child(old)), "the zombie is gone")


def test_events_tell_who_supervised(world: World) -> None:
    supervisor = world.supervisor()
    until(supervisor, world.beating, "it beats")
    supervisor.drain()
    supervisor.close()
    assert [e.kind for e in world.events() if e.kind.startswith("supervisor")] == [
        "supervisor_started",
        "supervisor_stopped",
    ]


def test_a_warm_node_is_promoted_and_the_pool_is_filled_again(make: Callable[..., World]) -> None:
    world = make(settings=replace(SETTINGS, pool=1))
    supervisor = world.supervisor()
    warm = until(supervisor, lambda: world.beating("pool.1"), "a warm node beats")
    old = world.member("a")
    assert next(e.subject for e in world.events("node_ready")) == "a", "the pool starts when all others are up"
    until(supervisor, lambda: "node_ready" in world.chain("pool.1"), "the warm one is ready")
    os.kill(old.pid, signal.SIGKILL)
    until(supervisor, lambda: world.events("node_promoted"), "it is promoted")
    (event,) = world.events("node_promoted")
    assert (event.subject, dict(event.detail)) == ("a", {"incarnation": warm.incarnation, "was": "pool.1"})
    assert world.member("a").incarnation == warm.incarnation
    with pytest.raises(Fenced):
        world.keeper.beat(old.incarnation, {})
    until(supervisor, lambda: world.beating("pool.1", but=warm.incarnation), "the pool is full again")
    assert supervisor.restarts == 1 and supervisor.all_ready

    supervisor.close()
    successor = world.supervisor()
    until(successor, lambda: successor.all_ready, "the next supervisor adopts them as what they are")
    assert sorted(m.node for m in world.keeper.members()) == ["a", "pool.1"]
    assert successor.restarts == 0
    os.kill(world.member("a").pid, signal.SIGKILL)
    until(successor, lambda: len(world.events("node_promoted")) == 2, "the next one is promoted as well")


def test_replicas_are_started_one_after_the_other_and_repaired(make: Callable[..., World]) -> None:
    world = make()
    world.pipeline.stream(name="counts", node="a", recovery=ActiveStandby(2))(lambda source_a: source_a)
    supervisor = world.supervisor()
    second = until(supervisor, lambda: world.beating("a.2"), "the second beats")
    first = world.member("a")
    started = [e.subject for e in world.events("node_started", "node_ready")]
    assert started[:3] == ["a", "a", "a.2"]
    os.kill(first.pid, signal.SIGKILL)
    until(supervisor, lambda: world.beating("a", but=first.incarnation), "it is repaired")
    assert world.member("a.2").incarnation == second.incarnation
    os.kill(second.pid, signal.SIGKILL)
    os.kill(world.member("a").pid, signal.SIGKILL)
    until(supervisor, lambda: world.beating("a.2", but=second.incarnation), "both are back")
