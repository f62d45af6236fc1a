from __future__ import annotations

import dataclasses

from rekindle.demo.chain import STEPS, Death, chain
from tests.supervisor.story import Story

DEATH = Death("score", incarnation=2, pid=77, processes=2, at_s=100.0, stream="scores")


def story() -> Story:
    """Node score dies and is started again; at the same time another node dies."""
    told = Story()
    told.member(2, "score", scores="computing", others="computing")
    told.event(90.0, "node_started", "score", incarnation=2, pid=77)
    told.event(95.0, "node_ready", "score", incarnation=2)
    told.event(100.1, "node_died", "score", incarnation=2, noticed="killed by signal 9")
    told.event(100.1, "node_killed_by_hand", "score", incarnation=2, pid=77, processes=2, killed_at_s=100.0)
    told.event(100.2, "node_fenced", "score", incarnation=2)
    told.event(100.3, "node_died", "main", incarnation=1, noticed="killed by signal 9")
    told.event(100.3, "node_started", "main", incarnation=4, pid=88)
    told.event(101.0, "node_started", "score", incarnation=3, pid=99)
    told.event(111.0, "node_ready", "score", incarnation=3, after_s=10.0)
    told.event(112.0, "fragment_joined", "scores", incarnation=3, how="fork", restored=1)
    told.publish("scores", 99.0, 100.05, by=2)
    told.publish("others", 99.0, by=2)
    return told


def test_every_step_is_found_once_and_in_order() -> None:
    told = story()
    told.publish("others", 112.5, by=3)
    told.publish("scores", 113.0, 114.0, by=3)
    moments = chain(DEATH, told.failovers(), [99.0, 100.06, 112.6, 113.2, 114.1])
    times = [100.0, 100.1, 100.2, 101.0, 111.0, 112.0, 113.0, 113.2]
    steps = [*STEPS[:5], "restored", *STEPS[5:]]
    assert [(m.step, m.at_s) for m in moments] == list(zip(steps, times, strict=True))
    assert "process 77 and 1 " in moments[0].detail
    assert "pid 99" in moments[3].detail
    assert "epoch 3 of scores" in moments[6].detail


def test_before_anybody_notices_it_is_only_dead() -> None:
    assert [m.step for m in chain(DEATH, [], [99.0, 100.06])] == ["died"]


def test_what_has_not_happened_yet_is_left_out() -> None:
    told = story()
    told.events = told.events[:5]
    moments = chain(DEATH, told.failovers(), [99.0, 100.06])
    assert [m.step for m in moments] == ["died", "noticed", "fenced"]


def test_an_epoch_that_has_not_arrived_yet_is_no_output() -> None:
    told = story()
    told.events = told.events[:8]
    told.publish("scores", 113.0, by=3)
    moments = chain(DEATH, told.failovers(), [112.0])
    assert [m.step for m in moments] == ["died", "noticed", "fenced", "chosen", "first epoch"]


def test_where_the_sink_died_too_old_epochs_come_out_before_the_first_new_one() -> None:
    told = story()
    told.publish("scores", 113.0, by=3)
    death = dataclasses.replace(DEATH, with_sink=True)
    moments = chain(death, told.failovers(), [99.9, 110.5, 114.0])
    assert [(m.step, m.at_s) for m in moments[4:]] == [
        ("first output", 110.5),
        ("ready", 111.0),
        ("restored", 112.0),
        ("first epoch", 113.0),
    ]
