"""What a pipeline looks like at one moment, gathered from the keeper's records.

``Watch`` remembers what it saw, so that another look costs a few small queries: nothing is read again,
and a first look reads at most ``EPOCHS_COUNTED`` epochs of a stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rekindle.cli.redundancy import Redundancy, Replica, redundancy, replicas_of
from rekindle.keeper import Keeper
from rekindle.keeper.records import Event, Failure, Member, StreamRecord

EPOCHS_COUNTED = 1000
RATE_WINDOW_S = 10.0
EVENTS_SHOWN = 8
_PAGE = 1000
LIVE = ("starting", "running")


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """``rows`` counts the epochs after ``rows_after_epoch``, as ``dropped_rows`` counts the input rows of those that
    were skipped; ``lags`` is by reader: epochs not yet taken."""

    stream: str
    fragment: str
    guarantee: str
    epoch: int
    rows: int
    rows_after_epoch: int
    rows_per_s: float
    published_at_s: float | None
    lags: Mapping[str, int]
    dropped_rows: int = 0
    dropped_epochs: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """``state`` is the newest incarnation's, ``phase`` what a running one says of itself ('ready' in the end).
    ``beat_age_s`` is None before a beat was seen to change."""

    node: str
    incarnation: int
    state: str
    phase: str
    want: str
    host: str
    pid: int
    beats: int
    beat_age_s: float | None
    enlisted_at_s: float
    replicas: Mapping[str, Replica] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True)
class SinkFacts:
    sink: str
    stream: str
    epoch: int
    lag: int


@dataclass(frozen=True, slots=True)
class Facts:
    at_s: float
    streams: tuple[StreamFacts, ...]
    nodes: tuple[NodeFacts, ...]
    sinks: tuple[SinkFacts, ...]
    failures: tuple[Failure, ...]
    events: tuple[Event, ...]
    redundancy: tuple[Redundancy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class _Counted:
    """What was counted of one stream so far."""

    after: int
    through: int
    rows: int = 0
    dropped_rows: int = 0
    dropped_epochs: int = 0
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def rate(self, now_s: float) -> float:
        while self.recent and self.recent[0][0] < now_s - RATE_WINDOW_S:
            self.recent.popleft()
        if not self.recent:
            return 0.0
        span_s = min(RATE_WINDOW_S, max(1.0, now_s - self.recent[0][0]))
        return sum(rows for _, rows in self.recent) / span_s


class Watch:
    """Looks at a keeper again and again. ``clock`` is that of the records, ``monotonic`` times heartbeats."""

    def __init__(self, keeper: Keeper, *, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._keeper = keeper
        self._clock = clock
        self._monotonic = monotonic
        self._counted: dict[str, _Counted] = {}
        self._members: dict[str, Member] | None = None
        self._beats: dict[int, tuple[int, float | None]] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_SHOWN)
        self._event_seen = 0

    def look(self) -> Facts:
        """The facts of now."""
        keeper = self._keeper
        streams = keeper.streams()
        heads = {name: int(epoch.epoch) for name, epoch in keeper.heads().items()}
        deliveries = keeper.deliveries()
        lags = self._lags(streams, heads)
        for sink, (stream, epoch) in deliveries.items():
            lags.setdefault(stream, {})[sink] = heads.get(stream, 0) - epoch
        nodes = self._nodes()
        members = list((self._members or {}).values())
        return Facts(
            at_s=self._clock(),
            streams=tuple(self._stream(record, heads.get(name, 0), lags) for name, record in streams.items()),
            nodes=tuple(nodes),
            sinks=tuple(
                SinkFacts(sink, stream, int(epoch), heads.get(stream, 0) - epoch)
                for sink, (stream, epoch) in sorted(deliveries.items())
            ),
            failures=tuple(keeper.failures()),
            events=self._latest_events(),
            redundancy=redundancy(members, {n.incarnation for n in nodes if n.live}, keeper.owners(), streams),
        )

    def _lags(self, streams: Mapping[str, StreamRecord], heads: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """By stream and reading fragment. A fragment's own streams are inside it and lag never."""
        reads: dict[str, set[str]] = {}
        for record in streams.values():
            for name in record.inputs:
                if name in streams and streams[name].fragment != record.fragment:
                    reads.setdefault(record.fragment, set()).add(name)
        lags: dict[str, dict[str, int]] = {}
        for fragment, names in sorted(reads.items()):
            claim = self._keeper.last_claim(fragment)
            for name in names:
                span = claim.spans.get(name) if claim is not None else None
                lags.setdefault(name, {})[fragment] = heads.get(name, 0) - (int(span.through) if span else 0)
        return lags

    def _stream(self, record: StreamRecord, head: int, lags: Mapping[str, Mapping[str, int]]) -> StreamFacts:
        counted = self._counted.get(record.stream)
        if counted is None:
            start = max(0, head - EPOCHS_COUNTED)
            counted = self._counted[record.stream] = _Counted(start, start)
        while counted.through < head:
            page = self._keeper.epochs(record.stream, after=counted.through, through=head, limit=_PAGE)
            if not page:
                break
            if counted.through == counted.after:
                counted.after = int(page[0].epoch) - 1  # what was trimmed before the first look is not counted
            for epoch in page:
                counted.rows += epoch.output.rows
                counted.recent.append((epoch.published_at_s, epoch.output.rows))
                if epoch.output.dropped is not None:
                    counted.dropped_rows += epoch.output.dropped
                    counted.dropped_epochs += 1
            counted.through = int(page[-1].epoch)
        published_at_s = counted.recent[-1][0] if counted.recent else None
        return StreamFacts(
            stream=record.stream,
            fragment=record.fragment,
            guarantee=record.guarantee,
            epoch=head,
            rows=counted.rows,
            rows_after_epoch=counted.after,
            rows_per_s=counted.rate(self._clock()),
            published_at_s=published_at_s,
            lags=lags.get(record.stream, {}),
            dropped_rows=counted.dropped_rows,
            dropped_epochs=counted.dropped_epochs,
        )

    def _nodes(self) -> list[NodeFacts]:
        found = self._keeper.members(live=self._members is not None)
        alive = {member.incarnation for member in found if member.state in LIVE}
        known = self._members if self._members is not None else {}
        for member in sorted(found, key=lambda member: (member.state in LIVE, member.incarnation)):
            for name in [name for name, other in known.items() if other.incarnation == member.incarnation]:
                del known[name]  # who was promoted bears another name now
            known[member.node] = member
        self._members = known
        now_s = self._monotonic()
        facts = []
        for node, member in sorted(known.items()):
            gone = member.state in LIVE and member.incarnation not in alive
            facts.append(
                NodeFacts(
                    node=node,
                    incarnation=int(member.incarnation),
                    state="gone" if gone else member.state,
                    phase=str(member.report.get("phase", "")),
                    want=member.want,
                    host=member.host,
                    pid=member.pid,
                    beats=member.beats,
                    beat_age_s=self._beat_age_s(member, now_s),
                    enlisted_at_s=member.enlisted_at_s,
                    replicas=replicas_of(member),
                )
            )
        return facts

    def _beat_age_s(self, member: Member, now_s: float) -> float | None:
        if member.incarnation not in self._beats:
            self._beats[member.incarnation] = (member.beats, None)
        beats, changed_s = self._beats[member.incarnation]
        if member.beats != beats:
            changed_s = now_s
            self._beats[member.incarnation] = (member.beats, changed_s)
        return None if changed_s is None else now_s - changed_s

    def _latest_events(self) -> tuple[Event, ...]:
        while page := self._keeper.events(after=self._event_seen, limit=_PAGE):
            self._events.extend(page)
            self._event_seen = page[-1].id
            if len(page) < _PAGE:
                break
        return tuple(self._events)
