"""How the demonstration looks: a live view in a terminal, plain lines otherwise."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rekindle.cli.durations import show_duration
from rekindle.cli.facts import Facts
from rekindle.cli.live import render
from rekindle.cli.report import note, outlet, plain_line, say

LINE_S = 5.0
SAID_MAX = 14


@dataclass(frozen=True, slots=True)
class Scene:
    """How things are at one moment."""

    elapsed_s: float
    act: str
    facts: Facts | None
    received: int
    quiet_s: float | None  # since rows came last


class View(Protocol):
    def say(self, text: str) -> None:
        """One remark, which stays."""

    def draw(self, scene: Scene) -> None:
        """Show how things are. Called often."""


@contextmanager
def view_for(*, as_json: bool) -> Iterator[View]:
    """Live if stdout is a terminal; lines on stdout otherwise, or on stderr beside JSON."""
    if as_json or not sys.stdout.isatty():
        yield Lines(tell=note if as_json else say)
        return
    with Live(console=Console(file=outlet(sys.stdout)), auto_refresh=False) as live:
        yield Picture(live)


class Lines:
    """Every remark, and how things are every few seconds."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._elapsed_s = 0.0
        self._told_s = 0.0

    def say(self, text: str) -> None:
        self._tell(f"{self._elapsed_s:6.1f}s  {plain_line(text)}")

    def draw(self, scene: Scene) -> None:
        self._elapsed_s = scene.elapsed_s
        if scene.elapsed_s - self._told_s < LINE_S:
            return
        self._told_s = scene.elapsed_s
        streams = scene.facts.streams if scene.facts is not None else ()
        rates = "  ".join(f"{s.stream} {s.rows:,} ({s.rows_per_s:,.0f}/s)" for s in streams)
        self._tell(f"{scene.elapsed_s:6.1f}s  {received(scene)}  {rates}".rstrip())


class Picture:
    """The whole scene, drawn again and again; the newest remarks below it."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._said: deque[str] = deque(maxlen=SAID_MAX)
        self._elapsed_s = 0.0

    def say(self, text: str) -> None:
        self._said.append(f"{self._elapsed_s:6.1f}s  {plain_line(text)}")

    def draw(self, scene: Scene) -> None:
        self._elapsed_s = scene.elapsed_s
        quiet = scene.quiet_s is not None and scene.quiet_s > 3
        head = Text.assemble((f"{scene.elapsed_s:5.1f}s  ", "dim"), (scene.act, "bold"))
        parts = [head, Text(received(scene), style="yellow" if quiet else "green"), Text("")]
        if scene.facts is not None:
            parts += [render(replace(scene.facts, events=())), Text("")]  # type: ignore[list-item]
        parts += [Text(line, style="bold red" if "SIGKILL" in line else "") for line in self._said]
        self._live.update(Group(*parts), refresh=True)


def received(scene: Scene) -> str:
    ago = "" if scene.quiet_s is None else f", the last {show_duration(scene.quiet_s)} ago"
    return f"received {scene.received:,} rows{ago}"
