"""Trimming in a node: what nobody can need any more goes, records first, then the files.

It is the matter of one node at a time, the owner of ``rekindle_trim``. A turn surveys what is needed now. What a
survey lets go is trimmed at a later turn, once every live node has beaten twice since: by then its reports show
every replica that had decided, before the survey, from where to start.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from rekindle.errors import StillNeeded
from rekindle.keeper.records import REJECTED_SUFFIX, EpochNumber, Incarnation, Member, StreamRecord
from rekindle.node.worker import STANDBY, WAITING, Context, Worker
from rekindle.plan import Fragment
from rekindle.recovery.horizon import Footing, Horizon, Need, horizon, needed_from
from rekindle.recovery.memory import oldest_needed
from rekindle.recovery.policy import Policy
from rekindle.streams.writer import ATTEMPT

SUBJECT = "rekindle_trim"
EVERY_S = 5.0
TIDY_S = 60.0
PAGE = 500
LOGS_KEPT = 50
EVENTS_KEPT = 100_000
_LOG = re.compile(r"[a-z][a-z0-9_]{0,62}(?:\.[1-9][0-9]*)?-(\d+)\.log\Z")  # also of main.2 and pool.1


@dataclass(frozen=True, slots=True)
class Survey:
    """What is needed at one moment. ``gone`` are sinks and fragments on record that are in no pipeline any more,
    ``heard`` the heartbeats of each live node whose reports it went by, ``beats`` those when it was finished."""

    horizon: Horizon
    gone: frozenset[str]
    heard: Mapping[Incarnation, int]
    beats: Mapping[Incarnation, int]

    def is_ripe(self, now: Survey) -> bool:
        """Whether ``now`` went by a report that every node which lived at this survey made since, or it is gone."""
        return all(now.heard[by] >= beats + 2 for by, beats in self.beats.items() if by in now.beats)


class Trim(Worker):
    """The work of its owner. ``depends_on`` gives the oldest epoch that the state of a fragment with a bounded memory
    depends on, as of a head."""

    def __init__(
        self, context: Context, depends_on: Callable[[Fragment, EpochNumber], EpochNumber] | None = None
    ) -> None:
        super().__init__(context, SUBJECT)
        self._depends_on = depends_on or self._oldest_needed
        self._known: dict[str, EpochNumber] = {}  # what was needed at an earlier head: it never falls
        self._survey: Survey | None = None
        self._swept: dict[str, EpochNumber] = {}
        self._refused: set[str] = set()
        self._tidied_s: float | None = None

    def work(self) -> None:
        while not self.context.stopping.wait(EVERY_S):
            self.turn()

    def turn(self) -> None:
        """One round: trim what an earlier survey and this one let go, and tidy up now and then."""
        context = self.context
        now = self._look()
        if self._survey is None or self._survey.is_ripe(now):
            if self._survey is not None:
                self._trim(self._survey.horizon.and_also(now.horizon), self._survey.gone & now.gone)
            self._survey = now
        for stream in now.horizon.epochs:
            self._remove_folders(stream)
        now_s = context.monotonic()
        if self._tidied_s is None or now_s - self._tidied_s >= TIDY_S:
            self._tidied_s = now_s
            self._remove_logs()
            context.keeper.trim_events(keep=EVENTS_KEPT, by=context.incarnation)

    # -- what is needed ----------------------------------------------------------------------------

    def _look(self) -> Survey:
        keeper, pipeline = self.context.keeper, self.context.pipeline
        records, deliveries = keeper.streams(), keeper.deliveries()
        reporting = keeper.members()
        reports = _in_hand(reporting)
        needs = [self._need(*subject, records, reports) for subject in self._subjects()]
        sinks = []
        for sink in pipeline.sinks.values():
            taken, epoch = deliveries.get(sink.name, (sink.stream, EpochNumber(0)))
            following = min([EpochNumber(epoch + 1), *reports.get(sink.name, ())])
            sinks.append((sink.stream, following if taken == sink.stream else EpochNumber(0)))
        known = {need.fragment for need in needs} | pipeline.sinks.keys()
        members = keeper.members()  # the last thing to be read, since what they report next is waited for
        recorded = {record.fragment for record in records.values()} | deliveries.keys()
        gone = frozenset(recorded - known - _in_hand(members).keys())
        return Survey(horizon(needs, sinks), gone, _beats(reporting), _beats(members))

    def _subjects(self) -> Iterator[tuple[str, tuple[str, ...], Fragment | None, bool]]:
        """Every source and fragment: its name, its inputs, the fragment, whether all its claims are needed."""
        for source in self.context.pipeline.sources.values():
            yield source.name, (), None, source.source.needs_history
        for fragment in self.context.analysis.fragments:
            yield fragment.name, fragment.inputs, fragment, False

    def _need(
        self,
        name: str,
        inputs: tuple[str, ...],
        fragment: Fragment | None,
        all_claims: bool,
        records: Mapping[str, StreamRecord],
        reports: Mapping[str, list[EpochNumber]],
    ) -> Need:
        keeper = self.context.keeper
        streams = tuple(record.stream for record in records.values() if record.fragment == name)
        policy: Policy | None = fragment.recovery if fragment is not None and fragment.stateful else None
        footing = Footing(
            head=min((keeper.head(stream) for stream in streams), default=EpochNumber(0)),
            safe=[point.epoch for point in keeper.safe_points(name)] if policy is not None else (),
            pinned=list(keeper.pins(name)),
            in_hand=reports.get(name, ()),
        )

        def depends_on() -> EpochNumber:
            return EpochNumber(1) if fragment is None else self._depends_on(fragment, footing.head)

        since = needed_from(policy, footing, depends_on)
        before = keeper.claim_of(name, EpochNumber(since - 1)) if since > 1 else None
        return Need(name, streams, inputs, since, keeper.claim_of(name, since), before, all_claims)

    def _oldest_needed(self, fragment: Fragment, head: EpochNumber) -> EpochNumber:
        memory = self.context.analysis.memories.get(fragment.name)
        if memory is None:
            return EpochNumber(1)
        since = self._known.get(fragment.name, EpochNumber(1))
        self._known[fragment.name] = oldest_needed(self.context.keeper, fragment.name, memory, head, since=since)
        return self._known[fragment.name]

    # -- trimming ----------------------------------------------------------------------------------

    def _trim(self, agreed: Horizon, gone: frozenset[str]) -> None:
        for stream, before in agreed.epochs.items():
            self._unless_needed(partial(self._trim_epochs, stream, before, gone))
        for fragment, before in agreed.claims.items():
            self._unless_needed(partial(self._trim_claims, fragment, before))

    def _trim_epochs(self, stream: str, before: EpochNumber, gone: frozenset[str]) -> None:
        """In pages, so that no transaction is long."""
        context = self.context
        old_s = context.clock() - self._retain_s(stream)
        oldest = context.keeper.oldest(stream)
        while 0 < oldest < before and not context.stopping.is_set():
            page = context.keeper.epochs(stream, after=oldest - 1, through=before - 1, limit=PAGE)
            young = next((number for number, epoch in enumerate(page) if epoch.published_at_s > old_s), len(page))
            if young == 0:
                return
            oldest = EpochNumber(page[young - 1].epoch + 1)
            context.keeper.trim_epochs(stream, oldest, by=context.incarnation, gone=gone)
            if young < PAGE:
                return

    def _trim_claims(self, fragment: str, before: EpochNumber) -> None:
        """Those whose epochs are trimmed, too."""
        context = self.context
        streams = [record.stream for record in context.keeper.streams().values() if record.fragment == fragment]
        before = min([before, *(context.keeper.oldest(stream) for stream in streams)])
        first = context.keeper.first_claim(fragment)
        at = first.epoch if first is not None else before
        while at < before and not context.stopping.is_set():
            at = min(before, EpochNumber(at + PAGE))
            context.keeper.trim_claims(fragment, at, by=context.incarnation)

    def _unless_needed(self, trim: Callable[[], None]) -> None:
        """The records know better than a survey: somebody came on record since. The next survey will know, too."""
        try:
            trim()
        except StillNeeded as refusal:
            if refusal.primary not in self._refused:
                self._refused.add(refusal.primary)
                self.context.keeper.event("trim_refused", SUBJECT, reason=refusal.primary, detail=refusal.detail)

    def _retain_s(self, stream: str) -> float:
        pipeline = self.context.pipeline
        declared = (
            pipeline.streams.get(stream)
            or pipeline.sources.get(stream)
            or pipeline.sources[stream.removesuffix(REJECTED_SUFFIX)]
        )
        return pipeline.settings.retain_s if declared.retain_s is None else declared.retain_s

    # -- files -------------------------------------------------------------------------------------

    def _remove_folders(self, stream: str) -> None:
        """Remove the segments of epochs before the oldest that is kept, also those that an earlier crash left."""
        context = self.context
        oldest = context.keeper.oldest(stream)
        folder = context.home.streams / stream
        if self._swept.get(stream) == oldest or oldest == 0 or not folder.exists():
            return
        kept = f"{oldest:012d}"
        for name in os.listdir(folder):
            if name < kept and ATTEMPT.match(name):
                if context.stopping.is_set():
                    return
                with suppress(FileNotFoundError):  # the replica that wrote it dropped it
                    shutil.rmtree(folder / name)
        self._swept[stream] = oldest

    def _remove_logs(self) -> None:
        """Remove the oldest logs of incarnations that are over."""
        live = {member.incarnation for member in self.context.keeper.members()}
        found = [(int(name[1]), path) for path in self.context.home.logs.iterdir() if (name := _LOG.match(path.name))]
        for incarnation, path in sorted(found)[:-LOGS_KEPT]:
            if incarnation not in live:
                path.unlink(missing_ok=True)


def _beats(members: list[Member]) -> dict[Incarnation, int]:
    return {member.incarnation: member.beats for member in members}


def _in_hand(members: list[Member]) -> dict[str, list[EpochNumber]]:
    """By source, fragment and sink: the epochs that live replicas of it have in hand. Who stands by has the one after
    the layer that it has restored, if there is one; who only waits has none."""
    found: dict[str, list[EpochNumber]] = {}
    for member in members:
        for subject, replica in dict(member.report.get("replicas") or {}).items():
            role, epoch = replica["role"], int(replica["epoch"])
            if role == WAITING or (role == STANDBY and epoch == 0):
                continue
            found.setdefault(subject, []).append(EpochNumber(epoch + 1 if role == STANDBY else epoch))
    return found
