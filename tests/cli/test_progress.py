"""What a run shows, line by line and as a table."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from rich.live import Live

from rekindle.cli.facts import Facts, StreamFacts
from rekindle.cli.progress import LINE_S, Lines, Table
from rekindle.errors import KeeperUnavailable
from rekindle.keeper.records import Event

STREAM = StreamFacts("counts", "counts", "precise", 1234, 9, 0, 56.0, 1.0, {})
FACTS = Facts(0.0, (STREAM,), (), (), (), (Event(1, 0.0, "of_an_earlier_run", "x", {}),))


class Watching:
    """A watch that sees what the test says, or nothing because the keeper is away."""

    def __init__(self) -> None:
        self.facts: Facts | None = FACTS

    def look(self) -> Facts:
        if self.facts is None:
            raise KeeperUnavailable("away")
        return self.facts


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def watch() -> Watching:
    return Watching()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_lines(watch: Watching, clock: Clock) -> None:
    told: list[str] = []
    lines = Lines(watch, monotonic=clock, tell=told.append)
    lines.show(None)
    assert told == []
    watch.facts = replace(FACTS, events=(*FACTS.events, Event(2, 0.0, "node_died", "main", {"noticed": "x"})))
    lines.show(None)
    assert told == []  # not yet time
    lines.show(None, at_once=True)
    assert len(told) == 1
    assert "node_died" in told[0]
    clock.now_s = LINE_S
    lines.show(None, waiting_for=["main"])
    assert told[1:] == ["5.0s  counts 1,234 (56 rows/s)  waiting for main"]


def test_lines_while_the_keeper_is_away(watch: Watching, clock: Clock) -> None:
    told: list[str] = []
    lines = Lines(watch, monotonic=clock, tell=told.append)
    lines.show(1.0)
    lines.show(1.0)
    lines.show(None)
    assert told == ["the keeper does not answer; nodes wait for it", "the keeper answers again"]
    watch.facts = None
    lines.show(None, at_once=True)
    assert len(told) == 2


def test_the_table(watch: Watching, clock: Clock) -> None:
    out = io.StringIO()
    with Live(console=Console(file=out, force_terminal=True, width=120), auto_refresh=False) as live:
        table = Table(watch, live, "words", monotonic=clock)
        table.show(None)
        assert "1,234" in out.getvalue()
        table.say("draining")
        clock.now_s = 10.0
        table.show(7.0, waiting_for=["main"])
    shown = out.getvalue()
    assert "the keeper does not answer (3.0s)" in shown
    assert "waiting for main" in shown
    assert "draining" in shown
    watch.facts = None
    table.show(None, at_once=True)  # the last facts stay
