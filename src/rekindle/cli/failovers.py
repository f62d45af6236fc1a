"""Fail-overs, read from a keeper, and as lines for people."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rekindle.cli.report import plain_line
from rekindle.keeper import Keeper
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.supervisor.chains import Failover
from rekindle.supervisor.failovers import KINDS, fold

_PAGE = 200


def failovers(keeper: Keeper) -> list[Failover]:
    """Every fail-over on record, the oldest first."""
    events = keeper.events(kinds=KINDS)

    def between(stream: str, from_s: float, through_s: float) -> list[Epoch]:
        return epochs_between(keeper, stream, from_s, through_s)

    return fold(events, keeper.members(live=False), keeper.streams(), between)


def epochs_between(keeper: Keeper, stream: str, from_s: float, through_s: float) -> list[Epoch]:
    """The epochs of a stream from the last one published at or before ``from_s`` to the first one after ``through_s``
    that was computed and not dropped. Looks at few records, however long the stream is."""
    found: list[Epoch] = []
    for epoch in _from(keeper, stream, max(0, _last_until(keeper, stream, from_s) - 1)):
        found.append(epoch)
        if epoch.published_at_s > through_s and epoch.output.dropped is None:
            break
    return found


def lines(failover: Failover) -> list[str]:
    """One fail-over for people: a heading, and a line for each moment."""
    died = failover.died_s
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(died))
    text = [f"{when}.{int(died * 1000) % 1000:03d}  node {failover.node}, incarnation {failover.incarnation}"]
    for moment in failover.moments:
        text.append(f"  {moment.at_s - died:+9.3f} s  {moment.step:<11}  {moment.detail}".rstrip())
    silent = [pause.stream for pause in failover.pauses if pause.first_s is None]
    if silent:
        text.append(f"  {'no epoch yet':>24}  {', '.join(silent)}")
    if failover.first("ready") is None:
        given_up = failover.first("given up") is not None
        text.append(f"  {'':>11}  {'':<11}  the redundancy is not restored" + ("" if given_up else " yet"))
    return [plain_line(line) for line in text]


def _last_until(keeper: Keeper, stream: str, at_s: float) -> int:
    """The newest epoch published at or before a time, 0 if none that is kept was."""
    low, high = 0, int(keeper.head(stream))
    while low < high:
        middle = (low + high + 1) // 2
        epoch = keeper.epoch(stream, EpochNumber(middle))
        if epoch is None or epoch.published_at_s <= at_s:  # the oldest may have been removed
            low = middle
        else:
            high = middle - 1
    return low


def _from(keeper: Keeper, stream: str, after: int) -> Iterator[Epoch]:
    while page := keeper.epochs(stream, after=after, limit=_PAGE):
        yield from page
        after = int(page[-1].epoch)
