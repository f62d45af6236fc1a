"""``rekindle logs``: what nodes wrote, one file an incarnation.

A file keeps the name that its node was started with; the keeper knows what the node is called since it was promoted.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.facts import LIVE
from rekindle.cli.opened import NODE, known_node, opened
from rekindle.cli.options import DEFAULT_HOME, FollowOption, HomeOption, KeeperOption
from rekindle.cli.report import note, plain, print_line
from rekindle.errors import KeeperUnavailable
from rekindle.home import open_home
from rekindle.keeper import Keeper
from rekindle.keeper.records import Member

LINES_SHOWN = 100
_LOOK_S = 0.3
_FILE = re.compile(rf"(?P<node>{NODE.pattern})-(?P<incarnation>[0-9]+)\.log")


@dataclass(frozen=True, slots=True, order=True)
class Log:
    """The log of one incarnation, with the node's name now and the one that it was started with."""

    is_live: bool
    incarnation: int
    node: str
    started_as: str
    path: Path


def logs(
    node: Annotated[str | None, typer.Argument(help="Only this node; all nodes if left out.")] = None,
    follow: FollowOption = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="The last so many lines; 0 is all.")] = LINES_SHOWN,
    incarnation: Annotated[
        int | None, typer.Option("--incarnation", min=1, help="This incarnation, not the newest of each node.")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
) -> None:
    """Print the end of the log of each node's newest incarnation."""
    place = open_home(home)
    with _members(home, keeper) as members:
        _show(lambda: find(place.logs, members()), node, incarnation, lines, follow=follow)


def find(folder: Path, members: Iterable[Member]) -> list[Log]:
    """Every log in a home's folder of logs; of each node the newest comes last, or the one that is live."""
    known = {int(member.incarnation): member for member in members}
    logs = []
    for path in folder.iterdir():
        match = _FILE.fullmatch(path.name)
        if match is not None:
            member = known.get(int(match["incarnation"]))
            node = match["node"] if member is None else member.node
            is_live = member is not None and member.state in LIVE
            logs.append(Log(is_live, int(match["incarnation"]), node, match["node"], path))
    return sorted(logs)


@contextmanager
def _members(home: Path, keeper_url: str | None) -> Iterator[Callable[[], list[Member]]]:
    """What tells all members there ever were. Logs can be read without a keeper: then nothing is known of
    promotions but what was known before."""
    last: list[Member] = []
    told = False

    def tell(error: KeeperUnavailable) -> None:
        nonlocal told
        if not told:
            note(f"{error.primary}; nodes that were promoted meanwhile bear their former names here")
        told = True

    with ExitStack() as stack:
        records: Keeper | None = None
        try:
            _, records = stack.enter_context(opened(home, keeper_url))
        except KeeperUnavailable as error:
            tell(error)

        def look() -> list[Member]:
            nonlocal last
            if records is not None:
                try:
                    last = records.members(live=False)
                except KeeperUnavailable as error:
                    tell(error)
            return last

        yield look


def _show(
    look: Callable[[], list[Log]], node: str | None, incarnation: int | None, lines: int, *, follow: bool
) -> None:
    found = look()
    if node is not None:
        known_node(node, sorted({name for log in found for name in (log.node, log.started_as)}))
    chosen = _choose(found, node, incarnation)
    if not chosen and not follow:
        note("no logs")
        return
    ends: dict[Path, int] = {}
    for log in chosen:
        with suppress(FileNotFoundError):  # trimmed since it was found
            ends[log.path] = _print_end(log, lines, headed=len(chosen) > 1)
    sys.stdout.flush()
    if follow:
        _follow(look, node, incarnation, ends)


def _choose(found: list[Log], node: str | None, incarnation: int | None) -> list[Log]:
    """A name that no node bears any more stands for those that were started with it."""
    mine = [log for log in found if node in (None, log.node)] or [log for log in found if node == log.started_as]
    if incarnation is not None:
        return [log for log in mine if log.incarnation == incarnation]
    return sorted({log.node: log for log in mine}.values(), key=lambda log: log.incarnation)


def _heading(log: Log) -> str:
    now = "" if log.node == log.started_as else f" (node {log.node})"
    return f"==> {log.path.name}{now} <=="


def _print_end(log: Log, lines: int, *, headed: bool) -> int:
    """Print the last lines of a log; returns where in the file that ended."""
    with open(log.path, "rb") as file:
        if headed:
            print_line(_heading(log))
        for line in deque(file, maxlen=lines or None):
            print_line(plain(line.decode(errors="replace").rstrip("\n")))
        return file.tell()


def _follow(look: Callable[[], list[Log]], node: str | None, incarnation: int | None, ends: dict[Path, int]) -> None:
    """Print what is added, also to logs of incarnations that are yet to come. A log that is trimmed has said all."""
    headings: dict[Path, str] = {}
    last: Path | None = None
    while True:
        for log in _choose(found := look(), node, incarnation):
            ends.setdefault(log.path, 0)
        headings |= {log.path: _heading(log) for log in found}
        for path, end in sorted(ends.items()):
            try:
                with open(path, "rb") as file:
                    file.seek(end)
                    added = file.read()
            except FileNotFoundError:
                del ends[path]
                continue
            whole = added[: added.rfind(b"\n") + 1]  # half a line waits for its other half
            if not whole:
                continue
            if path != last and len(ends) > 1:
                print_line(headings[path])
            last = path
            for line in whole.decode(errors="replace").splitlines():
                print_line(plain(line))
            ends[path] = end + len(whole)
        sys.stdout.flush()
        time.sleep(_LOOK_S)
