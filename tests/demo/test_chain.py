from __future__ import annotations

import dataclasses
from typing import Any

from rekindle.demo.chain import STEPS, Death, chain
from rekindle.keeper.records import EMPTY_DIGEST, Epoch, EpochNumber, Event, Incarnation, Output

DEATH = Death("score", incarnation=2, pid=77, processes=2, at_s=100.0, stream="scores", epoch=9)


def event(at_s: float, kind: str, subject: str = "score", **detail: Any) -> Event:
    return Event(int(at_s * 10), at_s, kind, subject, detail)


def epoch(number: int, at_s: float, incarnation: int) -> Epoch:
    output = Output((), 0, 0, EMPTY_DIGEST)
    return Epoch("scores", EpochNumber(number), "scores", output, Incarnation(incarnation), at_s)


EVENTS = [
    event(90.0, "node_started", incarnation=2, pid=77),
    event(95.0, "node_ready", incarnation=2),
    event(100.1, "node_died", incarnation=2, noticed="killed by signal 9"),
    event(100.2, "node_fenced", incarnation=2),
    event(100.3, "node_started", "main", incarnation=4, pid=88),
    event(101.0, "node_started", incarnation=3, pid=99),
    event(111.0, "node_ready", incarnation=3, workers=1),
    event(111.1, "node_ready", incarnation=3, after_s=10.0),
    event(150.0, "node_died", incarnation=3, noticed="later"),
]


def test_every_step_is_found_once_and_in_order() -> None:
    epochs = [epoch(10, 100.05, 2), epoch(11, 113.0, 3), epoch(12, 114.0, 3)]
    moments = chain(DEATH, EVENTS, epochs, [99.0, 100.06, 113.2, 114.1])
    assert [(m.step, m.at_s) for m in moments] == list(
        zip(STEPS, [100.0, 100.1, 100.2, 101.0, 111.0, 113.0, 113.2], strict=True)
    )
    assert "process 77 and 1 " in moments[0].detail
    assert "pid 99" in moments[3].detail
    assert "epoch 11" in moments[5].detail


def test_what_has_not_happened_yet_is_left_out() -> None:
    moments = chain(DEATH, EVENTS[:4], [epoch(10, 100.05, 2)], [99.0, 100.06])
    assert [m.step for m in moments] == ["died", "noticed", "fenced"]


def test_an_epoch_that_has_not_arrived_yet_is_no_output() -> None:
    moments = chain(DEATH, EVENTS[:6], [epoch(10, 113.0, 3)], [112.0])
    assert [m.step for m in moments] == ["died", "noticed", "fenced", "started", "first epoch"]


def test_where_the_sink_died_too_old_epochs_come_out_before_the_first_new_one() -> None:
    death = dataclasses.replace(DEATH, with_sink=True)
    moments = chain(death, EVENTS, [epoch(11, 113.0, 3)], [99.9, 110.5, 114.0])
    assert [(m.step, m.at_s) for m in moments[4:]] == [
        ("first output", 110.5),
        ("ready", 111.0),
        ("first epoch", 113.0),
    ]
