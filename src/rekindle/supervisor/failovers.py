"""Fail-overs: each death of a node as a chain of moments, folded from the events that everybody left.

Pure: what is not in the events is asked of functions that are passed in. A drain is no fail-over, whatever
became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rekindle.keeper.records import Epoch, Event, Member, StreamRecord
from rekindle.supervisor.chains import STEPS, Failover, Moment, Pause, killed_by_hand

KINDS = (
    "node_killed_by_hand",
    "node_asked_to_drain",
    "node_died",
    "node_fenced",
    "node_started",
    "node_promoted",
    "node_ready",
    "node_given_up",
    "taken_over",
    "fragment_joined",
    "gap",
)
"""The kinds of events that are looked at."""

Between = Callable[[str, float, float], Sequence[Epoch]]
"""The epochs of a stream from the last one at or before a time to the first one after another that was computed
and not dropped, as far as they are on record."""


def fold(
    events: Iterable[Event], members: Iterable[Member], streams: Mapping[str, StreamRecord], between: Between
) -> list[Failover]:
    """Every fail-over, the oldest first, as far as it has come. ``events`` are of KINDS, oldest first; ``members`` are
    all that there ever were."""
    known = sorted(events, key=lambda event: event.id)
    asked = {_incarnation(event) for event in known if event.kind == "node_asked_to_drain"}
    reports = {int(member.incarnation): member.report for member in members}
    found: dict[int, Failover] = {}
    for event in known:
        dead = _incarnation(event)
        if dead in found or dead in asked or not _is_death(event, known):
            continue
        found[dead] = _Fold(event, known, reports.get(dead, {}), streams, between).failover()
    return list(found.values())


def _is_death(event: Event, events: Sequence[Event]) -> bool:
    """A node that hung may only have been fenced. One that another had replaced before is no loss."""
    if event.kind == "node_died":
        return True
    if event.kind != "node_fenced" or not event.detail.get("hung"):
        return False
    return not any(
        other.kind == "node_started" and other.subject == event.subject and other.id < event.id
        for other in events
        if _incarnation(other) > _incarnation(event)
    )


class _Fold:
    """One death, and what followed it."""

    def __init__(
        self,
        death: Event,
        events: Sequence[Event],
        report: Mapping[str, Any],
        streams: Mapping[str, StreamRecord],
        between: Between,
    ) -> None:
        self._death = death
        self._events = events
        self._report = report
        self._streams = streams
        self._between = between
        self._node = death.subject
        self._dead = _incarnation(death)
        self._noticed_s = death.at_s
        deaths = self._of("node_died")
        self._gone = {self._dead, *(_incarnation(e) for e in deaths if e.at_s <= self._noticed_s)}
        self._by_hand = next(self._of("node_killed_by_hand", by=self._dead), None)
        self._silent_since_s = self._noticed_s - float(death.detail.get("silent_s") or 0.0)
        self._epochs = dict(self._epochs_around())

    def failover(self) -> Failover:
        died = self._died()
        successors = self._successors()
        pauses = tuple(self._pause(stream, epochs, died.at_s, successors) for stream, epochs in self._epochs.items())
        moments = [died, self._noticed(), *self._fenced(), *self._chosen(successors), *self._ready(successors)]
        for pause in pauses:
            moments += self._back(pause, died.at_s)
        moments += self._dropped(died.at_s)
        for event in self._of("node_given_up", by=self._dead):
            moments.append(Moment("given up", event.at_s, f"it died {event.detail.get('deaths')} times", self._node))
        moments.sort(key=lambda moment: (moment.at_s, STEPS.index(moment.step)))
        why = str(self._death.detail.get("noticed") or self._death.detail.get("why") or "")
        return Failover(self._node, self._dead, why, died.at_s, self._noticed_s, tuple(dict.fromkeys(moments)), pauses)

    # -- the dead one --------------------------------------------------------------------------------

    def _epochs_around(self) -> Iterator[tuple[str, Sequence[Epoch]]]:
        """The epochs around its death of the streams that it computed; where nothing says which these are, of those
        that it published last."""
        replicas: Mapping[str, Any] = self._report.get("replicas") or {}
        joined = {event.subject for event in self._of("fragment_joined", by=self._dead)}
        fragments = {event.subject for event in self._of("taken_over", by=self._dead)} | joined.difference(replicas)
        fragments |= {name for name, replica in replicas.items() if replica.get("role") in ("computing", "joining")}
        since_s = min(self._silent_since_s, self._killed_s() or self._silent_since_s)
        for stream, record in self._streams.items():
            if record.fragment in fragments:
                yield stream, self._between(stream, since_s, self._noticed_s)
            elif not fragments and not replicas:
                epochs = self._between(stream, since_s, self._noticed_s)
                if any(e.incarnation == self._dead and e.published_at_s <= self._noticed_s for e in epochs):
                    yield stream, epochs

    def _died(self) -> Moment:
        event = self._by_hand
        killed_s = self._killed_s()
        if event is not None and killed_s is not None:
            others = int(event.detail.get("processes", 1)) - 1
            detail = killed_by_hand(int(event.detail.get("pid", 0)), others)
            return Moment("died", killed_s, detail, self._node, self._dead)
        at_s, detail = self._silent_since_s, "its last heartbeat"
        for stream, epochs in self._epochs.items():
            for epoch in epochs:
                if epoch.incarnation == self._dead and at_s < epoch.published_at_s <= self._noticed_s:
                    at_s, detail = epoch.published_at_s, f"its last sign of life: epoch {epoch.epoch} of {stream}"
        return Moment("died", at_s, detail, self._node, self._dead)

    def _killed_s(self) -> float | None:
        at_s = None if self._by_hand is None else self._by_hand.detail.get("killed_at_s")
        return None if at_s is None else float(at_s)

    def _noticed(self) -> Moment:
        detail = self._death.detail
        said = [str(detail.get("noticed") or detail.get("why") or "")]
        if detail.get("silent_s") is not None:
            said.append(f"the last heartbeat {float(detail['silent_s']):.1f} s before")
        if int(detail.get("deaths") or 1) > 1:
            said.append(f"its death number {detail['deaths']} without any new epoch")
        return Moment("noticed", self._noticed_s, ", ".join(part for part in said if part), self._node, self._dead)

    def _fenced(self) -> Iterator[Moment]:
        for event in self._of("node_fenced", by=self._dead):
            detail = f"incarnation {self._dead} can publish nothing any more"
            yield Moment("fenced", event.at_s, detail, self._node, self._dead)
            return

    # -- who came after ------------------------------------------------------------------------------

    def _successors(self) -> dict[int, Event]:
        """The incarnations that became this node after the dead one had, each with the event of that."""
        became = [e for kind in ("node_started", "node_promoted") for e in self._of(kind, subject=self._node)]
        own = max((event.id for event in became if _incarnation(event) == self._dead), default=None)
        later = (e for e in became if (_incarnation(e) > self._dead if own is None else e.id > own))
        return {_incarnation(event): event for event in sorted(later, key=lambda event: event.id)}

    def _taken_over(self) -> Iterator[Event]:
        return (
            event for event in self._events if event.kind == "taken_over" and event.detail.get("before") == self._dead
        )

    def _chosen(self, successors: Mapping[int, Event]) -> Iterator[Moment]:
        found = [*self._taken_over(), *successors.values()]
        if found:
            event = min(found, key=lambda event: (event.at_s, event.id))
            yield Moment("chosen", event.at_s, _choice(event), event.subject, _incarnation(event))

    def _ready(self, successors: Mapping[int, Event]) -> Iterator[Moment]:
        for event in self._of("node_ready", subject=self._node):
            became = successors.get(_incarnation(event))
            if became is not None and event.id > became.id:
                after = event.detail.get("after_s")
                took = "" if after is None else f" {float(after):.1f} s after its start"
                detail = f"incarnation {_incarnation(event)} is ready{took}: redundancy restored"
                yield Moment("ready", event.at_s, detail, self._node, _incarnation(event))
                return

    # -- its streams ---------------------------------------------------------------------------------

    def _pause(self, stream: str, epochs: Sequence[Epoch], died_s: float, successors: Mapping[int, Event]) -> Pause:
        """From the last epoch before the death, or by one that is gone, to the next that was computed."""
        before = (e for e in epochs if e.published_at_s <= died_s or e.incarnation in self._gone)
        last = max(before, key=_number, default=None)
        later = [e for e in epochs if e.output.dropped is None and e.epoch > (0 if last is None else last.epoch)]
        first = min(later, key=_number, default=None)
        fragment = self._streams[stream].fragment
        by = None if first is None else int(first.incarnation)
        return Pause(
            stream=stream,
            fragment=fragment,
            last_epoch=None if last is None else int(last.epoch),
            last_s=None if last is None else last.published_at_s,
            first_epoch=None if first is None else int(first.epoch),
            first_s=None if first is None else first.published_at_s,
            by=by,
            was_computing=by is not None and self._was_computing(fragment, by, died_s, successors),
        )

    def _was_computing(self, fragment: str, by: int, died_s: float, successors: Mapping[int, Event]) -> bool:
        took = any(event.subject == fragment and _incarnation(event) == by for event in self._taken_over())
        joins = self._of("fragment_joined", subject=fragment, by=by)
        return by not in successors and not took and not any(event.at_s >= died_s for event in joins)

    def _back(self, pause: Pause, died_s: float) -> Iterator[Moment]:
        """Whoever publishes again, or until then whoever joins first, is the one that had to be restored."""
        joins = [event for event in self._of("fragment_joined", subject=pause.fragment) if event.at_s >= died_s]
        mine = [event for event in joins if pause.by in (None, _incarnation(event))]
        if mine:
            event = mine[0]
            yield Moment("restored", event.at_s, _restoration(event), pause.fragment, _incarnation(event))
        if pause.first_s is not None:
            detail = f"epoch {pause.first_epoch} of {pause.stream}, by incarnation {pause.by}"
            detail += ", which was computing already" if pause.was_computing else ""
            if pause.pause_s is not None:
                detail += f"; output paused {pause.pause_s:.2f} s"
            yield Moment("first epoch", pause.first_s, detail, pause.stream, pause.by)

    def _dropped(self, died_s: float) -> Iterator[Moment]:
        for fragment in sorted({self._streams[stream].fragment for stream in self._epochs}):
            gap = next((event for event in self._of("gap", subject=fragment) if event.at_s >= died_s), None)
            if gap is not None:
                detail = f"{gap.detail.get('rows')} rows of input of {fragment}, epoch {gap.detail.get('epoch')}"
                yield Moment("dropped", gap.at_s, detail, fragment, _incarnation(gap))

    def _of(self, kind: str, *, subject: str | None = None, by: int | None = None) -> Iterator[Event]:
        for event in self._events:
            if event.kind == kind and subject in (None, event.subject) and by in (None, _incarnation(event)):
                yield event


def _choice(event: Event) -> str:
    number = _incarnation(event)
    match event.kind:
        case "taken_over":
            where = event.detail.get("node")
            return f"incarnation {number}{f' of node {where}' if where else ''} takes over {event.subject}"
        case "node_promoted":
            return f"incarnation {number}, warm as {event.detail.get('was')}, becomes node {event.subject}"
        case _:
            return f"incarnation {number} of node {event.subject} is started, pid {event.detail.get('pid')}"


def _restoration(event: Event) -> str:
    detail = event.detail
    said = [f"{event.subject} by incarnation {_incarnation(event)}: {detail.get('how')}"]
    if detail.get("restored"):
        said.append(f"state of epoch {detail['restored']}")
    if detail.get("replays"):
        said.append(f"replays {detail['replays']} epochs")
    return ", ".join(said)


def _incarnation(event: Event) -> int:
    return int(event.detail.get("incarnation") or 0)


def _number(epoch: Epoch) -> int:
    return int(epoch.epoch)
