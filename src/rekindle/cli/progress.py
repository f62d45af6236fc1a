"""What ``rekindle run`` shows while it runs: a live table in a terminal, plain lines otherwise.

Whether anybody looks makes no difference to the run: what cannot be written goes nowhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rekindle.cli.durations import show_duration
from rekindle.cli.facts import Facts, Watch
from rekindle.cli.live import event_line, render
from rekindle.cli.report import note, outlet
from rekindle.errors import KeeperUnavailable
from rekindle.home import Home
from rekindle.keeper import Keeper

DRAW_S = 0.5
LINE_S = 5.0


class Looking(Protocol):
    """What gathers facts; raises KeeperUnavailable."""

    def look(self) -> Facts: ...


class Progress(Protocol):
    def show(
        self, keeper_away_since_s: float | None, *, waiting_for: Sequence[str] = (), at_once: bool = False
    ) -> None:
        """Show how things are, if it is time to or ``at_once``. Called often, and first before anything happens."""

    def say(self, text: str) -> None:
        """One remark."""


@contextmanager
def progress_for(home: Home, keeper: Keeper, *, as_json: bool) -> Iterator[Progress]:
    """A live table if stdout is a terminal and not asked for JSON; plain lines on stderr otherwise."""
    watch = Watch(keeper, clock=time.time, monotonic=time.monotonic)
    title = f"{home.pipeline}  {home.root}"
    if as_json or not sys.stdout.isatty():
        yield Lines(watch, monotonic=time.monotonic, tell=note)
        return
    with Live(console=Console(file=outlet(sys.stdout)), auto_refresh=False) as live:
        yield Table(watch, live, title, monotonic=time.monotonic)


class Table:
    """The live table."""

    def __init__(self, watch: Looking, live: Live, title: str, *, monotonic: Callable[[], float]) -> None:
        self._watch = watch
        self._live = live
        self._title = title
        self._monotonic = monotonic
        self._drawn_s: float | None = None
        self._facts: Facts | None = None
        self._remark = ""

    def show(
        self, keeper_away_since_s: float | None, *, waiting_for: Sequence[str] = (), at_once: bool = False
    ) -> None:
        now_s = self._monotonic()
        if not at_once and self._drawn_s is not None and now_s - self._drawn_s < DRAW_S:
            return
        self._drawn_s = now_s
        if keeper_away_since_s is None:
            try:
                self._facts = self._watch.look()
            except KeeperUnavailable:
                keeper_away_since_s = now_s
        parts = [] if self._facts is None else [render(self._facts, title=self._title)]
        if keeper_away_since_s is not None:
            away = show_duration(now_s - keeper_away_since_s)
            parts.append(Text(f"the keeper does not answer ({away}); nodes wait for it", style="bold yellow"))
        if waiting_for:
            parts.append(Text(f"waiting for {', '.join(waiting_for)}", style="yellow"))
        if self._remark:
            parts.append(Text(self._remark, style="dim"))
        self._live.update(Group(*parts), refresh=True)

    def say(self, text: str) -> None:
        self._remark = text


class Lines:
    """A line every few seconds, and one for each event."""

    def __init__(self, watch: Looking, *, monotonic: Callable[[], float], tell: Callable[[str], None]) -> None:
        self._watch = watch
        self._monotonic = monotonic
        self._tell = tell
        self._started_s = monotonic()
        self._looked_s: float | None = None
        self._told_s = self._started_s
        self._event_seen: int | None = None
        self._away_told = False

    def show(
        self, keeper_away_since_s: float | None, *, waiting_for: Sequence[str] = (), at_once: bool = False
    ) -> None:
        now_s = self._monotonic()
        if keeper_away_since_s is not None:
            if not self._away_told:
                self._tell("the keeper does not answer; nodes wait for it")
            self._away_told = True
            return
        if self._away_told:
            self._tell("the keeper answers again")
            self._away_told = False
        if not at_once and self._looked_s is not None and now_s - self._looked_s < DRAW_S:
            return
        self._looked_s = now_s
        try:
            facts = self._watch.look()
        except KeeperUnavailable:
            return  # the next step of the supervisor notices, and then it is told
        self._events(facts)
        if now_s - self._told_s >= LINE_S:
            self._told_s = now_s
            self._line(facts, now_s, waiting_for)

    def say(self, text: str) -> None:
        self._tell(text)

    def _events(self, facts: Facts) -> None:
        """The events since the last look. Those before the first one are of earlier runs."""
        newest = facts.events[-1].id if facts.events else 0
        if self._event_seen is not None:
            for event in facts.events:
                if event.id > self._event_seen:
                    self._tell(event_line(event).plain)
        self._event_seen = newest

    def _line(self, facts: Facts, now_s: float, waiting_for: Sequence[str]) -> None:
        streams = "  ".join(f"{s.stream} {s.epoch:,} ({s.rows_per_s:,.0f} rows/s)" for s in facts.streams)
        waiting = f"  waiting for {', '.join(waiting_for)}" if waiting_for else ""
        self._tell(f"{show_duration(now_s - self._started_s)}  {streams or 'no streams yet'}{waiting}")
