"""Chains of moments, from what is on record of a death and of what followed."""

from __future__ import annotations

import pytest

from rekindle.supervisor.failovers import KINDS
from tests.supervisor.story import Story, steps


def restarted() -> Story:
    """Node main, incarnation 2, computes counts, is killed at about 100 and started again."""
    story = Story()
    story.member(2, "main", counts="computing", counts_sink="computing")
    story.event(80.0, "node_started", "main", incarnation=2, pid=77)
    story.event(90.0, "node_ready", "main", incarnation=2, after_s=10.0)
    story.event(90.1, "fragment_joined", "counts", incarnation=2, how="fork", restored=3, published=3, replays=0)
    story.event(
        100.1, "node_died", "main", incarnation=2, noticed="killed by signal 9", exit_code=-9, deaths=1, silent_s=0.6
    )
    story.event(100.2, "node_fenced", "main", incarnation=2, why="killed by signal 9")
    story.event(101.0, "node_started", "main", incarnation=3, pid=99)
    story.event(110.0, "fragment_joined", "counts", incarnation=3, how="restore", restored=4, published=6, replays=2)
    story.event(111.0, "node_ready", "main", incarnation=3, after_s=10.0)
    story.publish("counts", 98.0, 99.0, 99.4, 99.9, by=2)
    story.publish("counts", 112.4, 113.0, by=3)
    return story


def test_a_node_that_is_started_again() -> None:
    [failover] = restarted().failovers()
    assert (failover.node, failover.incarnation, failover.why) == ("main", 2, "killed by signal 9")
    assert steps(failover) == [
        ("died", 99.9),
        ("noticed", 100.1),
        ("fenced", 100.2),
        ("chosen", 101.0),
        ("restored", 110.0),
        ("ready", 111.0),
        ("first epoch", 112.4),
    ]
    details = {moment.step: moment.detail for moment in failover.moments}
    assert details["died"] == "its last sign of life: epoch 4 of counts"
    assert "the last heartbeat 0.6 s before" in details["noticed"]
    assert "incarnation 3 of node main is started, pid 99" in details["chosen"]
    assert "restore, state of epoch 4, replays 2 epochs" in details["restored"]
    assert "redundancy restored" in details["ready"]
    assert "epoch 5 of counts, by incarnation 3; output paused 12.50 s" in details["first epoch"]


def test_the_pause_is_between_the_last_epoch_before_and_the_first_after() -> None:
    [pause] = restarted().failovers()[0].pauses
    assert (pause.last_epoch, pause.first_epoch, pause.by, pause.was_computing) == (4, 5, 3, False)
    assert pause.pause_s == pytest.approx(12.5)


def test_a_kill_by_hand_is_timed_from_the_kill() -> None:
    story = restarted()
    story.event(100.3, "node_killed_by_hand", "main", incarnation=2, pid=77, processes=3, killed_at_s=99.95)
    [failover] = story.failovers()
    assert steps(failover)[0] == ("died", 99.95)
    assert failover.moments[0].detail == "SIGKILL, process 77 and 2 that it started"


def test_a_hang_is_timed_from_the_last_heartbeat() -> None:
    story = Story()
    story.member(2, "main", counts="computing")
    story.event(
        115.0, "node_died", "main", incarnation=2, noticed="no heartbeat for 10 s", exit_code=None, silent_s=10.5
    )
    story.publish("counts", 99.0, 103.0, by=2)
    story.publish("counts", 116.0, by=3)
    [failover] = story.failovers()
    assert failover.died_s == 104.5
    assert failover.moments[0].detail == "its last heartbeat"
    assert failover.pauses[0].pause_s == 13.0


@pytest.mark.parametrize("replaced_before", [False, True])
def test_a_hang_that_was_only_fenced_counts_unless_another_had_replaced_it(replaced_before: bool) -> None:
    story = Story()
    story.event(80.0, "node_started", "main", incarnation=2, pid=7)
    if replaced_before:
        story.event(90.0, "node_started", "main", incarnation=3, pid=8)
    story.event(115.0, "node_fenced", "main", incarnation=2, why="no heartbeat for 10 s", hung=True)
    story.event(116.0, "node_fenced", "main", incarnation=9, why="it left, but something lingers")
    assert [f.incarnation for f in story.failovers()] == ([] if replaced_before else [2])


def test_a_drain_is_no_failover_even_if_it_ends_badly() -> None:
    story = Story()
    story.event(90.0, "node_asked_to_drain", "main", incarnation=2, why="the run ends")
    story.event(95.0, "node_fenced", "main", incarnation=2, why="not drained after 60 s", hung=True)
    story.event(95.1, "node_died", "main", incarnation=2, noticed="killed by signal 9")
    assert story.failovers() == []


def active() -> Story:
    """Two replicas compute; the one that also reads the source dies."""
    story = Story()
    story.member(2, "main", counts="computing", lines="computing")
    story.member(3, "main.2", counts="computing", lines="standby")
    story.event(80.0, "node_started", "main", incarnation=2, pid=7)
    story.event(80.1, "node_started", "main.2", incarnation=3, pid=8)
    story.event(90.0, "fragment_joined", "counts", incarnation=3, how="fork", restored=0, published=0, replays=0)
    story.event(100.2, "taken_over", "lines", incarnation=3, before=2, node="main.2")
    story.event(100.3, "node_died", "main", incarnation=2, noticed="killed by signal 9", silent_s=0.1)
    story.event(100.3, "node_fenced", "main", incarnation=2, why="killed by signal 9")
    story.event(100.3, "node_started", "main", incarnation=4, pid=9)
    story.event(115.0, "fragment_joined", "counts", incarnation=4, how="fork", restored=90, published=95, replays=5)
    story.event(116.0, "node_ready", "main", incarnation=4, after_s=15.7)
    story.publish("counts", 99.0, 99.8, by=3)
    story.publish("counts", 100.15, by=2)
    story.publish("counts", 100.4, 101.0, by=3)
    story.publish("lines", 99.7, 100.1, by=2)
    story.publish("lines", 100.5, by=3)
    return story


def test_a_replica_that_was_computing_needs_no_restoring() -> None:
    [failover] = active().failovers()
    counts, lines = failover.pauses
    assert (counts.by, counts.was_computing, counts.last_epoch, counts.first_epoch) == (3, True, 3, 4)
    assert (lines.by, lines.was_computing) == (3, False)
    assert lines.pause_s == pytest.approx(0.4)
    assert "restored" not in [step for step, _ in steps(failover)]
    first = failover.first("first epoch", "counts")
    assert first is not None and "which was computing already" in first.detail
    other = failover.first("first epoch", "lines")
    assert other is not None and "already" not in other.detail


def test_whoever_takes_over_first_is_chosen_and_a_replacement_restores_the_redundancy() -> None:
    [failover] = active().failovers()
    chosen, ready = failover.first("chosen"), failover.first("ready")
    assert chosen is not None and (chosen.at_s, chosen.by, chosen.subject) == (100.2, 3, "lines")
    assert chosen.detail == "incarnation 3 of node main.2 takes over lines"
    assert ready is not None and (ready.at_s, ready.by) == (116.0, 4)


def test_what_only_stood_by_does_not_pause() -> None:
    story = active()
    story.event(130.0, "node_died", "main.2", incarnation=3, noticed="killed by signal 9", silent_s=0.1)
    story.events = [event for event in story.events if event.kind != "taken_over"]
    story.publish("lines", 131.0, by=4)
    story.publish("counts", 131.0, by=4)
    assert [pause.stream for pause in story.failovers()[1].pauses] == ["counts"]
    story.members.pop()
    story.member(3, "main.2", counts="standby", lines="standby")
    assert story.failovers()[1].pauses == (), "it had joined, to stand by"


def test_a_standby_that_had_taken_over_computed_whatever_it_said_last() -> None:
    story = active()
    story.event(101.5, "node_died", "main.2", incarnation=3, noticed="killed by signal 9", silent_s=0.1)
    assert [pause.stream for pause in story.failovers()[1].pauses] == ["counts", "lines"]
    assert {pause.first_epoch for pause in story.failovers()[1].pauses} == {None}


def test_a_warm_node_with_a_lower_number_is_promoted() -> None:
    story = Story()
    story.event(80.0, "node_started", "main", incarnation=1, pid=6)
    story.event(81.0, "node_started", "pool.1", incarnation=2, pid=7)
    story.event(82.0, "node_ready", "pool.1", incarnation=2, after_s=1.0)
    story.event(85.0, "node_started", "main", incarnation=3, pid=8)
    story.event(86.0, "node_ready", "main", incarnation=3, after_s=1.0)
    story.event(100.0, "node_died", "main", incarnation=3, noticed="exited with code 1")
    story.event(100.1, "node_promoted", "main", incarnation=2, was="pool.1")
    story.event(100.2, "node_started", "pool.1", incarnation=4, pid=9)
    story.event(104.0, "node_ready", "main", incarnation=2, after_s=24.0)
    [failover] = story.failovers()
    chosen = failover.first("chosen")
    assert chosen is not None and (chosen.by, chosen.at_s) == (2, 100.1)
    assert chosen.detail == "incarnation 2, warm as pool.1, becomes node main"
    assert steps(failover)[-1] == ("ready", 104.0)


def test_the_promoted_one_can_die_too() -> None:
    story = Story()
    story.event(81.0, "node_started", "pool.1", incarnation=2, pid=7)
    story.event(85.0, "node_started", "main", incarnation=3, pid=8)
    story.event(86.0, "node_ready", "main", incarnation=3, after_s=1.0)
    story.event(100.1, "node_promoted", "main", incarnation=2, was="pool.1")
    story.event(120.0, "node_died", "main", incarnation=2, noticed="exited with code 1")
    story.event(121.0, "node_started", "main", incarnation=5, pid=9)
    [failover] = story.failovers()
    chosen = failover.first("chosen")
    assert chosen is not None and chosen.by == 5
    assert failover.first("ready") is None


def test_a_death_during_recovery_is_a_failover_of_its_own() -> None:
    story = restarted()
    story.events = story.events[:6]
    story.event(105.0, "node_died", "main", incarnation=3, noticed="killed by signal 9", deaths=2)
    story.event(106.0, "node_started", "main", incarnation=4, pid=100)
    story.event(110.0, "fragment_joined", "counts", incarnation=4, how="restore", restored=4)
    story.event(111.0, "node_ready", "main", incarnation=4, after_s=5.0)
    story.epochs["counts"] = story.epochs["counts"][:4]
    story.publish("counts", 112.0, by=4)
    first, second = story.failovers()
    assert [moment.by for moment in first.moments if moment.step == "chosen"] == [3]
    assert [moment.by for moment in second.moments if moment.step == "chosen"] == [4]
    for failover in (first, second):
        ready = failover.first("ready")
        assert ready is not None and ready.by == 4
    assert [moment.by for moment in first.moments if moment.step == "restored"] == [4]
    noticed = second.first("noticed")
    assert noticed is not None and "its death number 2 without any new epoch" in noticed.detail


def test_replicas_that_die_together() -> None:
    story = active()
    story.events = story.events[:3]
    for node, dead in (("main", 2), ("main.2", 3)):
        story.event(100.3, "node_died", node, incarnation=dead, noticed="killed by signal 9", silent_s=0.2)
    story.event(101.0, "node_started", "main", incarnation=4, pid=9)
    story.event(101.1, "node_started", "main.2", incarnation=5, pid=10)
    story.event(111.0, "fragment_joined", "counts", incarnation=4, how="fork", restored=3)
    story.epochs.clear()
    story.publish("counts", 99.0, by=3)
    story.publish("counts", 100.25, by=2)
    story.publish("counts", 112.0, by=4)
    story.publish("lines", 100.0, by=2)
    first, second = story.failovers()
    assert [f.node for f in (first, second)] == ["main", "main.2"]
    assert [[p.first_epoch for p in f.pauses] for f in (first, second)] == [[3, None], [3]]
    assert not any(p.was_computing for p in (*first.pauses, *second.pauses))


def test_a_gap_lasts_until_something_is_computed_again() -> None:
    story = Story()
    story.member(2, "main", counts="computing")
    story.event(100.0, "node_died", "main", incarnation=2, noticed="killed by signal 9")
    story.event(101.0, "node_started", "main", incarnation=3, pid=9)
    story.event(110.0, "fragment_joined", "counts", incarnation=3, how="jump")
    story.event(110.1, "gap", "counts", epoch=3, rows=500, inputs={"lines": [7, 60]}, incarnation=3)
    story.publish("counts", 98.0, 99.0, by=2)
    story.publish("counts", 110.1, by=3, dropped=500)
    story.publish("counts", 111.0, by=3)
    [failover] = story.failovers()
    assert steps(failover)[-3:] == [("restored", 110.0), ("dropped", 110.1), ("first epoch", 111.0)]
    assert failover.pauses[0].first_epoch == 4
    assert failover.pauses[0].pause_s == 12.0
    dropped = failover.first("dropped")
    assert dropped is not None and dropped.detail == "500 rows of input of counts, epoch 3"


def test_what_has_not_happened_yet_is_left_out() -> None:
    story = restarted()
    story.events, story.epochs["counts"] = story.events[:5], story.epochs["counts"][:4]
    [failover] = story.failovers()
    assert [step for step, _ in steps(failover)] == ["died", "noticed", "fenced"]
    assert failover.pauses[0].pause_s is None
    assert failover.to_json()["redundancy_restored_after_s"] is None


def test_a_node_that_is_given_up() -> None:
    story = Story()
    story.event(100.0, "node_died", "main", incarnation=2, noticed="exited with code 1", deaths=5)
    story.event(100.1, "node_given_up", "main", incarnation=2, deaths=5, log="main-2.log")
    assert steps(story.failovers()[0])[-1] == ("given up", 100.1)


def test_of_a_node_that_said_nothing_what_it_published_last_counts() -> None:
    story = restarted()
    story.members.clear()
    story.events = [event for event in story.events if event.kind != "fragment_joined"]
    story.publish("elsewhere", 99.0, 100.0, 113.0, by=7)
    [failover] = story.failovers()
    assert [pause.stream for pause in failover.pauses] == ["counts"]


def test_a_fragment_of_another_name_than_its_stream() -> None:
    story = restarted()
    story.fragments = {"counts": "tally"}
    story.members.clear()
    story.member(2, "main", tally="computing")
    for i, event in enumerate(story.events):
        if event.kind == "fragment_joined":
            story.events[i] = type(event)(event.id, event.at_s, event.kind, "tally", event.detail)
    [failover] = story.failovers()
    assert [(m.step, m.subject) for m in failover.moments if m.step in ("restored", "first epoch")] == [
        ("restored", "tally"),
        ("first epoch", "counts"),
    ]


def test_every_kind_that_the_stories_use_is_asked_for() -> None:
    used = {event.kind for story in (restarted(), active()) for event in story.events}
    assert used <= set(KINDS)


def test_json_has_times_after_the_death() -> None:
    record = restarted().failovers()[0].to_json()
    assert record["redundancy_restored_after_s"] == pytest.approx(11.1)
    assert record["streams"][0]["pause_s"] == 12.5
    assert [entry["after_s"] for entry in record["chain"]][:2] == [0.0, pytest.approx(0.2)]
