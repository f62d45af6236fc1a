"""``rekindle logs``: what nodes wrote, one file an incarnation."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.opened import known_node
from rekindle.cli.options import DEFAULT_HOME, FollowOption, HomeOption
from rekindle.cli.report import note, plain, print_line
from rekindle.home import open_home

LINES_SHOWN = 100
_LOOK_S = 0.3
_NAME = re.compile(r"([a-z][a-z0-9_]{0,62})-([0-9]+)\.log\Z")


@dataclass(frozen=True, slots=True, order=True)
class Log:
    """The log of one incarnation of a node."""

    incarnation: int
    node: str
    path: Path


def logs(
    node: Annotated[str | None, typer.Argument(help="Only this node; all nodes if left out.")] = None,
    follow: FollowOption = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="The last so many lines; 0 is all.")] = LINES_SHOWN,
    incarnation: Annotated[
        int | None, typer.Option("--incarnation", min=1, help="This incarnation, not the newest of each node.")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print the end of the log of each node's newest incarnation."""
    folder = open_home(home).logs
    found = find(folder)
    if node is not None:
        known_node(node, sorted({log.node for log in found}))
    chosen = _choose(found, node, incarnation)
    if not chosen and not follow:
        note("no logs")
        return
    ends = {log: _print_end(log, lines, headed=len(chosen) > 1) for log in chosen}
    sys.stdout.flush()
    if follow:
        _follow(folder, node, incarnation, ends)


def find(folder: Path) -> list[Log]:
    """Every log in a home's folder of logs, oldest incarnation first."""
    matches = ((_NAME.match(path.name), path) for path in folder.iterdir())
    return sorted(Log(int(match[2]), match[1], path) for match, path in matches if match)


def _choose(found: list[Log], node: str | None, incarnation: int | None) -> list[Log]:
    mine = [log for log in found if node is None or log.node == node]
    if incarnation is not None:
        return [log for log in mine if log.incarnation == incarnation]
    return sorted({log.node: log for log in mine}.values())


def _print_end(log: Log, lines: int, *, headed: bool) -> int:
    """Print the last lines of a log; returns where in the file that ended."""
    if headed:
        print_line(f"==> {log.path.name} <==")
    with open(log.path, "rb") as file:
        for line in deque(file, maxlen=lines or None):
            print_line(plain(line.decode(errors="replace").rstrip("\n")))
        return file.tell()


def _follow(folder: Path, node: str | None, incarnation: int | None, ends: dict[Log, int]) -> None:
    """Print what is added, also to logs of incarnations that are yet to come."""
    last: Log | None = None
    while True:
        for log in _choose(find(folder), node, incarnation):
            if log not in ends:
                ends[log] = 0
        for log, end in sorted(ends.items()):
            with open(log.path, "rb") as file:
                file.seek(end)
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]  # half a line waits for its other half
            if not whole:
                continue
            if log != last and len(ends) > 1:
                print_line(f"==> {log.path.name} <==")
            last = log
            for line in whole.decode(errors="replace").splitlines():
                print_line(plain(line))
            ends[log] = end + len(whole)
        sys.stdout.flush()
        time.sleep(_LOOK_S)
