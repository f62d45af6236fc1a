"""``rekindle stop``: a clean end from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Annotated

import typer

from rekindle.cli.durations import parse_duration, show_duration
from rekindle.cli.opened import opened, supervisor_pid
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import note, say, say_json
from rekindle.errors import RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import Member
from rekindle.supervisor.processes import start_ticks, this_host

_LOOK_S = 0.2


def stop(
    timeout: Annotated[str, typer.Option("--timeout", help="How long to wait: 30s, 5m.")] = "90s",
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the nodes of a home to drain to an epoch boundary and leave, and wait until they have.

    A supervisor on this host is asked to end, which drains its nodes; nodes without one are asked through
    the keeper. Nothing is killed.
    """
    timeout_s = parse_duration(timeout, what="--timeout")
    with opened(home, keeper) as (place, records):
        stopping = Stopping(place, records, sleep=time.sleep, monotonic=time.monotonic)
        stopped = stopping.run(timeout_s, tell=(lambda text: None) if as_json else note)
    if as_json:
        say_json({"stopped": stopped})
    else:
        say(f"stopped: {', '.join(stopped)}" if stopped else "nothing runs on this home")


class Stopping:
    """One attempt to end everything that runs on a home."""

    def __init__(
        self, home: Home, keeper: Keeper, *, sleep: Callable[[float], None], monotonic: Callable[[], float]
    ) -> None:
        self._home = home
        self._keeper = keeper
        self._sleep = sleep
        self._monotonic = monotonic
        self._asked: set[int] = set()
        self._asked_supervisor: int | None = None

    def run(self, timeout_s: float, *, tell: Callable[[str], None]) -> list[str]:
        """The names of the nodes that ended. Raises RekindleError if some still run after ``timeout_s``."""
        start_s = self._monotonic()
        seen: set[str] = set()
        said: tuple[list[str], bool] | None = None
        while True:
            supervisor = supervisor_pid(self._home)
            live = self._keeper.members()
            seen |= {member.node for member in live}
            if not live and supervisor is None:
                return sorted(seen)
            self._ask(supervisor, live)
            waiting = (sorted({member.node for member in live}), supervisor is not None)
            if waiting != said:
                said = waiting
                who = ["the supervisor"] if supervisor is not None else []
                tell(f"waiting for {', '.join([*waiting[0], *who])} ({show_duration(self._monotonic() - start_s)})")
            if self._monotonic() - start_s > timeout_s:
                left = [f"{member.node} (incarnation {member.incarnation}, process {member.pid})" for member in live]
                raise RekindleError(
                    f"not everything ended within {show_duration(timeout_s)}",
                    detail=", ".join(left) or f"the supervisor, process {supervisor}",
                    hint="'rekindle logs' shows what the nodes do; 'rekindle kill NODE' ends one the hard way",
                )
            self._sleep(_LOOK_S)

    def _ask(self, supervisor: int | None, live: list[Member]) -> None:
        if supervisor is not None:
            if supervisor != self._asked_supervisor and terminate(self._home, supervisor):
                self._asked_supervisor = supervisor
            return  # it asks its nodes itself; asked by another, they would look to it as if they had died
        for member in live:
            if member.host == this_host() and start_ticks(member.pid) != member.pid_started:
                self._keeper.fence(member.incarnation, "stopped, and its process is gone")
            elif member.incarnation not in self._asked:
                self._keeper.want(member.incarnation, "drain")
                self._asked.add(member.incarnation)


def terminate(home: Home, supervisor: int) -> bool:
    """SIGTERM to the supervisor, if it still is the one that holds the home."""
    try:
        pidfd = os.pidfd_open(supervisor)
    except ProcessLookupError:
        return False
    try:
        if supervisor_pid(home) != supervisor:  # looked at again: now the id cannot be reused
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise RekindleError(
            "the supervisor belongs to another user", detail=f"process {supervisor}", hint="stop it as that user"
        ) from None
    finally:
        os.close(pidfd)
    return True
