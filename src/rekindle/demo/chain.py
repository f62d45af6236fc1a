"""What happened after a node was killed, step by step, gathered from the records that everybody left."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rekindle.keeper.records import Epoch, Event

STEPS = ("died", "noticed", "fenced", "started", "ready", "first epoch", "first output")


@dataclass(frozen=True, slots=True)
class Death:
    """A node that was killed, and the stream by whose epochs its return is judged."""

    node: str
    incarnation: int
    pid: int
    processes: int
    at_s: float
    stream: str
    epoch: int  # the newest of the stream at that moment
    with_sink: bool = False  # whether the sink died with it: then nothing arrives before its next start


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the STEPS, and when it happened."""

    step: str
    at_s: float
    detail: str


def chain(death: Death, events: Iterable[Event], epochs: Iterable[Epoch], arrivals: Iterable[float]) -> list[Moment]:
    """The steps that have happened so far, by their time, each once. Of a node that has the sink, what its old
    epochs left to deliver comes out before its first new epoch.

    ``epochs`` are those of the death's stream after its epoch, ``arrivals`` the times at which a receiver got rows.
    """
    later = [event for event in events if event.subject == death.node]
    moments = [Moment("died", death.at_s, f"SIGKILL, process {death.pid} and {death.processes - 1} that it started")]

    def first(step: str, kinds: tuple[str, ...], is_it: Callable[[int], bool], detail: Callable[[Event], str]) -> None:
        for event in later:
            if event.kind in kinds and is_it(int(event.detail.get("incarnation", 0))):
                moments.append(Moment(step, event.at_s, detail(event)))
                return

    old, new = (lambda n: n == death.incarnation), (lambda n: n > death.incarnation)
    first("noticed", ("node_died",), old, lambda e: f"by the supervisor: {e.detail.get('noticed', '')}")
    first("fenced", ("node_fenced",), old, lambda e: f"incarnation {death.incarnation} can publish nothing any more")
    first("started", ("node_started",), new, lambda e: f"incarnation {e.detail['incarnation']}, pid {e.detail['pid']}")
    first("ready", ("node_ready",), new, lambda e: f"incarnation {e.detail['incarnation']} has its Spark session")
    for epoch in epochs:
        if epoch.incarnation > death.incarnation:
            detail = f"epoch {epoch.epoch} of {epoch.stream}, by incarnation {epoch.incarnation}"
            moments.append(Moment("first epoch", epoch.published_at_s, detail))
            break
    from_step = "started" if death.with_sink else "first epoch"
    since_s = next((moment.at_s for moment in moments if moment.step == from_step), None)
    if since_s is not None:
        arrived_s = min((at_s for at_s in arrivals if at_s >= since_s), default=None)
        if arrived_s is not None:
            moments.append(Moment("first output", arrived_s, "rows at the receiver again"))
    return sorted(moments, key=lambda moment: moment.at_s)
