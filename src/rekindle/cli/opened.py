"""Opening a home and its keeper for a command that looks at them from outside."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from rekindle.errors import DeclarationError, HomeUnusable
from rekindle.home import Home, open_home, without_password
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import NAME, StreamRecord

PATIENCE_S = 5.0
NODE = re.compile(r"[a-z][a-z0-9_]{0,62}(\.[1-9][0-9]*)?")
"""The name of a node, with the number of a replica or of a warm node."""


@contextmanager
def opened(root: Path, keeper_url: str | None, *, read_only: bool = False) -> Iterator[tuple[Home, Keeper]]:
    """An existing home and its keeper, closed at the end. ``keeper_url`` may add what the home does not record:
    a password; it cannot name another keeper."""
    home = open_home(root)
    url = address_of(home, keeper_url)
    keeper = open_keeper(url, home=home, clock=time.time, patience_s=PATIENCE_S, read_only=read_only)
    try:
        yield home, keeper
    finally:
        keeper.close()


def address_of(home: Home, keeper_url: str | None) -> str | None:
    """Where the home's keeper is; None is SQLite in the home."""
    if keeper_url is None:
        return None if home.keeper_url == "sqlite" else home.keeper_url
    if without_password(keeper_url) != home.keeper_url:
        raise HomeUnusable(
            "the home was made with another keeper",
            detail=f"{home.root} has its records in {home.keeper_url}",
            hint="leave --keeper (and REKINDLE_KEEPER) out, or give the same as at the first run",
        )
    return keeper_url


def known_stream(name: str, streams: dict[str, StreamRecord]) -> StreamRecord:
    """The stream of that name; DeclarationError if there is none, or if it could not be a name at all."""
    if not NAME.match(name):
        raise DeclarationError(
            f"stream {name!r} is not a usable name",
            hint="stream names are 1 to 63 lower-case letters, digits and underscores, starting with a letter",
        )
    if name in streams:
        return streams[name]
    raise DeclarationError(f"there is no stream {name!r}", hint=_instead(name, list(streams), "streams"))


def known_node(name: str, nodes: list[str]) -> str:
    """That node's name; DeclarationError if there is none, or if it could not be a name at all."""
    if not NODE.fullmatch(name):
        raise DeclarationError(
            f"node {name!r} is not a usable name",
            hint="a node is called as it was declared; replicas of it main.2, main.3, ..., warm nodes pool.1, ...",
        )
    if name in nodes:
        return name
    raise DeclarationError(f"there is no node {name!r}", hint=_instead(name, nodes, "nodes"))


def supervisor_pid(home: Home) -> int | None:
    """The process id of the supervisor that runs on this home now, None if none does.

    Looks at the kernel's list of locks and takes none: trying the lock could turn a supervisor away
    that starts at this moment. The file says who holds it, the kernel whether that is so: the file may be of an
    earlier run, and a file of another disk may have the same inode number.
    """
    path = home.root / "supervisor.lock"
    try:
        inode = path.stat().st_ino
        holder = path.read_text().strip()
        locks = Path("/proc/locks").read_text().splitlines()
    except FileNotFoundError:
        return None
    return int(holder) if holder in _holders(locks, inode) else None


def _holders(locks: list[str], inode: int) -> set[str]:
    """Who holds a lock by flock on a file of this inode number, such as '3: FLOCK  ADVISORY  WRITE 286 fe:00:99 0 EOF'.
    Those who wait have an arrow before the kind."""
    fields = [line.split() for line in locks]
    return {f[4] for f in fields if len(f) > 5 and f[1] == "FLOCK" and f[5].rpartition(":")[2] == str(inode)}


def _instead(name: str, known: list[str], what: str) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"{what} here: {', '.join(sorted(known))}" if known else f"there are no {what} yet"
