"""``rekindle kill``: SIGKILL a node, to practise what happens when one dies."""

from __future__ import annotations

import select
import time
from typing import Annotated, Any

import typer

from rekindle.cli.opened import known_node, opened
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import say, say_json
from rekindle.errors import RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import Member
from rekindle.supervisor.processes import Processes, Watched, this_host

_END_S = 10.0


def kill(
    node: Annotated[str, typer.Argument(help="The node's name, such as main, main.2 or pool.1.")],
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    as_json: JsonOption = False,
) -> None:
    """SIGKILL a node of this host and all that it started: its Python, its JVM, their workers.

    Nothing is lost by it: the supervisor starts the node again, if one runs.
    """
    with opened(home, keeper) as (place, records):
        live = {member.node: member for member in records.members()}  # the newest incarnation of each
        known_node(node, sorted({member.node for member in records.members(live=False)}))
        if node not in live:
            raise RekindleError(f"node {node!r} does not run", hint="'rekindle status' shows what does")
        member = live[node]
        count = kill_on_record(place, records, member, time.time())
    if as_json:
        say_json({"node": node, "incarnation": member.incarnation, "pid": member.pid, "processes": count})
    else:
        say(f"killed node {node}: incarnation {member.incarnation}, process {member.pid}, {count} processes")


def kill_on_record(home: Home, keeper: Keeper, member: Member, now_s: float) -> int:
    """The same as ``kill_member``, with an event that says when, so that the fail-over is timed from there."""
    count = kill_member(home, member)
    detail: dict[str, Any] = {
        "incarnation": int(member.incarnation),
        "pid": member.pid,
        "processes": count,
        "killed_at_s": now_s,
    }
    keeper.event("node_killed_by_hand", member.node, **detail)
    return count


def kill_member(home: Home, member: Member) -> int:
    """SIGKILL the processes of one incarnation and wait for its first one to end; returns how many got it.

    Raises RekindleError, and kills nothing, unless the process that the keeper knows runs here: the same id
    with another start time is somebody else's process.
    """
    if member.host != this_host():
        raise RekindleError(
            f"node {member.node!r} runs on another host",
            detail=f"on {member.host or 'a host that is not known yet'}; this is {this_host()}",
            hint="run the same command there",
        )
    processes = Processes(home.id)
    try:
        leader = processes.adopt(member.pid, member.pid_started) if member.pid > 0 else None
        if leader is None:
            raise RekindleError(
                f"node {member.node!r} is on record, but its process {member.pid} is gone",
                detail=f"incarnation {member.incarnation}; nothing was killed",
                hint="a running supervisor notices by itself; if none runs, 'rekindle run' starts again",
            )
        try:
            count = processes.kill(member.incarnation, leader)
        except PermissionError:
            raise RekindleError(
                f"node {member.node!r} belongs to another user",
                detail=f"process {member.pid}",
                hint="run the same command as that user",
            ) from None
        _wait_for_end(leader)
        processes.forget(leader)
        return count
    finally:
        processes.close()


def _wait_for_end(leader: Watched) -> None:
    poll = select.poll()
    poll.register(leader, select.POLLIN)
    poll.poll(_END_S * 1000)
