"""Events and epochs as nodes and supervisors leave them, without any of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rekindle.keeper.records import EMPTY_DIGEST, Epoch, EpochNumber, Event, Incarnation, Member, Output, StreamRecord
from rekindle.supervisor.chains import Failover
from rekindle.supervisor.failovers import fold


@dataclass
class Story:
    """What is on record. Every stream belongs to the fragment of the same name, unless ``fragments`` says so."""

    events: list[Event] = field(default_factory=list)
    epochs: dict[str, list[Epoch]] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    fragments: dict[str, str] = field(default_factory=dict)

    def event(self, at_s: float, kind: str, subject: str, **detail: Any) -> None:
        self.events.append(Event(len(self.events) + 1, at_s, kind, subject, detail))

    def publish(self, stream: str, *at_s: float, by: int, dropped: int | None = None) -> None:
        epochs = self.epochs.setdefault(stream, [])
        for each_s in at_s:
            output = Output((), 0, 0, EMPTY_DIGEST, dropped=dropped)
            number = EpochNumber(len(epochs) + 1)
            epochs.append(Epoch(stream, number, self.fragment(stream), output, Incarnation(by), each_s))

    def member(self, incarnation: int, node: str, **roles: str) -> None:
        """An incarnation, and its last report: the role of each replica."""
        replicas = {subject: {"role": role, "epoch": 1, "of": 2} for subject, role in roles.items()}
        report: Mapping[str, Any] = {"phase": "ready", "replicas": replicas} if roles else {"phase": "ready"}
        self.members.append(Member(node, Incarnation(incarnation), "fenced", "run", "", 0, 0, 0, "", 0.0, report))

    def failovers(self) -> list[Failover]:
        streams = {name: StreamRecord(name, self.fragment(name), "{}", ("s",), "precise") for name in self.epochs}
        return fold(self.events, self.members, streams, self.between)

    def fragment(self, stream: str) -> str:
        return self.fragments.get(stream, stream)

    def between(self, stream: str, from_s: float, through_s: float) -> Sequence[Epoch]:
        epochs = self.epochs[stream]
        start = max((i for i, e in enumerate(epochs) if e.published_at_s <= from_s), default=0)
        stop = (i + 1 for i, e in enumerate(epochs) if e.published_at_s > through_s and e.output.dropped is None)
        return epochs[start : next(stop, len(epochs))]


def steps(failover: Failover) -> list[tuple[str, float]]:
    return [(moment.step, moment.at_s) for moment in failover.moments]
