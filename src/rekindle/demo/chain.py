"""What happened after a node was killed, step by step: its fail-over, as the receiver of the output saw it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rekindle.supervisor.chains import Failover, Moment, killed_by_hand

STEPS = ("died", "noticed", "fenced", "chosen", "ready", "first epoch", "first output")
"""All of these must be seen. A fragment with state is also 'restored'."""


@dataclass(frozen=True, slots=True)
class Death:
    """A node that was killed, and the stream by whose epochs its return is judged."""

    node: str
    incarnation: int
    pid: int
    processes: int
    at_s: float
    stream: str
    with_sink: bool = False  # whether the sink died with it: then nothing arrives before somebody is chosen


def chain(death: Death, failovers: Iterable[Failover], arrivals: Iterable[float]) -> list[Moment]:
    """The moments that have come so far, by their time, each step once. Of a node that has the sink, what its old
    epochs left to deliver comes out before its first new epoch.

    ``arrivals`` are the times at which a receiver got rows.
    """
    failover = next((f for f in failovers if f.incarnation == death.incarnation), None)
    moments = {"died": Moment("died", death.at_s, killed_by_hand(death.pid, death.processes - 1), death.node)}
    for moment in failover.moments if failover is not None else ():
        if moment.subject in (death.node, death.stream) or moment.step == "chosen":
            moments.setdefault(moment.step, moment)
    since = moments.get("chosen" if death.with_sink else "first epoch")
    if since is not None:
        arrived_s = min((at_s for at_s in arrivals if at_s >= since.at_s), default=None)
        if arrived_s is not None:
            moments["first output"] = Moment("first output", arrived_s, "rows at the receiver again")
    return sorted(moments.values(), key=lambda moment: moment.at_s)
