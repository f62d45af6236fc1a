"""The keeper's verbs, on one SQL schema, over SQLite or PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rekindle.keeper.address import parse, schema_name
from rekindle.keeper.founding import check_admission, found
from rekindle.keeper.ledger import Ledger, ledger_of, read_rows
from rekindle.keeper.line import Line
from rekindle.keeper.lives import Lives
from rekindle.keeper.notes import Notes
from rekindle.keeper.ownership import Ownership
from rekindle.keeper.records import (
    Claim,
    Epoch,
    EpochNumber,
    Event,
    Failure,
    Incarnation,
    Member,
    Output,
    Owner,
    Published,
    SafePoint,
    Secured,
    Span,
    StreamRecord,
)
from rekindle.keeper.rows import legible
from rekindle.keeper.safety import Safety
from rekindle.keeper.schema import tables
from rekindle.keeper.store import Store
from rekindle.keeper.tally import Dialect
from rekindle.keeper.trimming import Trimming
from rekindle.keeper.waiting import PostgresWatch, SqliteWatch, Watch


class Keeper:
    """Every method is one transaction, safe to call from any thread and any process, and safe to repeat.

    While the database cannot be reached a method waits and tries again, at most ``patience_s``; then it
    raises KeeperUnavailable. ``clock`` gives the seconds since 1970 that go into records. A ``read_only`` one refuses,
    in the database, whatever would change a record.
    """

    def __init__(
        self,
        url: str,
        *,
        home_id: str,
        pipeline: str,
        clock: Callable[[], float],
        patience_s: float,
        read_only: bool = False,
    ) -> None:
        address = parse(url)
        schema = None if address.kind == "sqlite" else schema_name(pipeline)
        described = tables(schema)
        dialect = Dialect(described, channel=schema)
        self._clock = clock
        self._lives = Lives(described, dialect)
        self._ownership = Ownership(described, dialect, self._lives)
        self._line = Line(described, dialect, self._lives)
        self._notes = Notes(described, dialect, self._lives, self._line)
        self._safety = Safety(described, dialect, self._lives)
        self._trimming = Trimming(described, dialect, self._lives, self._line, self._notes, self._safety)
        self._tables = described
        self._store = Store(address, patience_s=patience_s, read_only=read_only)
        self._watch: Watch
        if schema is None:
            self._watch = SqliteWatch(self._store.sqlite_connection)
        else:
            self._watch = PostgresWatch(self._store.postgres_connection, schema)
        try:
            check_admission(self._store)
            found(self._store, described, home_id=home_id, pipeline=pipeline)
        except BaseException:
            self._store.close()
            raise

    def close(self) -> None:
        """Let go of the database. Those who wait return at once; calling a verb afterwards is a mistake."""
        self._watch.close()
        self._store.close()

    # -- nodes -------------------------------------------------------------------------------------

    def enlist(self, node: str, *, code: str) -> Incarnation:
        """A new incarnation of ``node``, state 'starting', want 'run'. Every older one of it is fenced."""
        return self._store.write(lambda tx: self._lives.enlist(tx, node, code, self._clock()))

    def promote(self, incarnation: Incarnation, node: str) -> None:
        """From now on a live incarnation is the one of ``node``; every other one of it is fenced. Raises Fenced."""
        self._store.write(lambda tx: self._lives.promote(tx, incarnation, node))
        self._watch.nudge()

    def present(self, by: Incarnation, *, host: str, pid: int, pid_started: int) -> None:
        """The process of an incarnation introduces itself (or its supervisor does). Raises Fenced."""
        self._store.write(lambda tx: self._lives.present(tx, by, host, pid, pid_started))

    def beat(self, by: Incarnation, report: Mapping[str, Any]) -> str:
        """Count a heartbeat, state becomes 'running'; returns what is wanted: 'run' or 'drain'. Raises Fenced."""
        return self._store.write(lambda tx: self._lives.beat(tx, by, report))

    def want(self, incarnation: Incarnation, what: str) -> None:
        """Set what an incarnation is wanted to do: 'run' or 'drain'."""
        self._store.write(lambda tx: self._lives.want(tx, incarnation, what))

    def leave(self, by: Incarnation) -> None:
        """A clean goodbye: state 'left'. A fenced incarnation stays fenced."""
        self._store.write(lambda tx: self._lives.leave(tx, by))

    def fence(self, incarnation: Incarnation, why: str) -> bool:
        """From now on this incarnation claims, publishes and delivers nothing. False if it had left or was fenced."""
        call = uuid.uuid4().hex
        fenced = self._store.write(lambda tx: self._lives.fence(tx, incarnation, legible(why), call))
        self._watch.nudge()
        return fenced

    def members(self, *, live: bool = True) -> list[Member]:
        """Incarnations that are starting or running (``live``), or all there ever were, oldest first."""
        return self._store.read(lambda connection: self._lives.members(connection, live))

    # -- ownership ---------------------------------------------------------------------------------

    def own(self, subject: str, *, by: Incarnation) -> Owner:
        """Become the owner of ``subject`` unless another live incarnation is; returns who is. Raises Fenced."""
        return self._store.write(lambda tx: self._ownership.own(tx, subject, by, self._clock()))

    def owners(self) -> dict[str, Owner]:
        """The last owner of everything that ever had one; ``live`` says whether it still is."""
        return self._store.read(self._ownership.all)

    # -- streams -----------------------------------------------------------------------------------

    def record_stream(self, record: StreamRecord) -> StreamRecord:
        """Insert if absent; returns the record in force."""
        return self._store.write(lambda tx: self._line.record_stream(tx, record))

    def streams(self) -> dict[str, StreamRecord]:
        return self._store.read(self._line.streams)

    # -- claim and publish -------------------------------------------------------------------------

    def claim(self, fragment: str, epoch: EpochNumber, spans: Mapping[str, Span], *, by: Incarnation) -> Claim:
        """Write once which input ``epoch`` consumes. The first proposal wins; returns the claim in force.

        Raises Fenced, and BrokenInvariant for a proposal that (while the epoch is unclaimed) is not dense,
        whose spans do not start where the fragment's last claim ended, run backwards, or run ahead of what
        is published. A span is a stream's if a stream of that name is recorded whose fragment is not this one
        (checked as epoch numbers against its head), otherwise a source's (checked only for ``after`` equal to
        the last ``through``). A stream that the fragment did not claim before starts with its oldest kept epoch.
        """
        claim = self._store.write(lambda tx: self._line.claim(tx, fragment, epoch, spans, by, self._clock()))
        self._watch.nudge()
        return claim

    def publish(
        self, fragment: str, epoch: EpochNumber, outputs: Mapping[str, Output], *, by: Incarnation
    ) -> Published:
        """Write once what ``epoch`` contains, on all of the fragment's streams at once. The first wins.

        A repeat of the same proposal (same segments, by the same incarnation) counts as the one that won,
        so that a lost answer can be asked again. Raises Fenced, and BrokenInvariant if the epoch is not
        claimed, or not the next one of each of the streams.
        """
        published = self._store.write(lambda tx: self._line.publish(tx, fragment, epoch, outputs, by, self._clock()))
        self._watch.nudge()
        return published

    def claim_of(self, fragment: str, epoch: EpochNumber) -> Claim | None:
        return self._store.read(lambda connection: self._line.claim_of(connection, fragment, epoch))

    def first_claim(self, fragment: str) -> Claim | None:
        """The oldest claim that is kept."""
        return self._store.read(lambda connection: self._line.first_claim(connection, fragment))

    def last_claim(self, fragment: str) -> Claim | None:
        return self._store.read(lambda connection: self._line.last_claim(connection, fragment))

    def claims(self, fragment: str, *, after: int = 0) -> Iterator[Claim]:
        """Claims that are kept, in order of epoch, read in pages."""
        while True:
            page = self._store.read(partial(self._line.claims, fragment=fragment, after=after))
            yield from page
            if not page:
                return
            after = page[-1].epoch

    def head(self, stream: str) -> EpochNumber:
        """The newest published epoch, 0 if none."""
        return self._store.read(lambda connection: self._line.head(connection, stream))

    def oldest(self, stream: str) -> EpochNumber:
        """The oldest epoch that is kept, 0 if none was published yet."""
        return self._store.read(lambda connection: self._line.oldest(connection, stream))

    def heads(self) -> dict[str, Epoch]:
        """The newest epoch of every stream that has one."""
        return self._store.read(self._line.heads)

    def epoch(self, stream: str, epoch: EpochNumber) -> Epoch | None:
        return self._store.read(lambda connection: self._line.epoch(connection, stream, epoch))

    def epochs(self, stream: str, *, after: int, through: int | None = None, limit: int | None = None) -> list[Epoch]:
        """Published epochs in (after, through] that are kept, in order."""
        return self._store.read(lambda connection: self._line.epochs(connection, stream, after, through, limit))

    def first_reaching(self, stream: str, time_us: int, *, after: int, through: int) -> EpochNumber | None:
        """The oldest kept epoch in (after, through] that may hold a row of this event time or a later one: by its
        record, or because it has rows and no event times on record. None if there is none.

        Costs what there are kept epochs in that range.
        """
        return self._store.read(
            lambda connection: self._line.first_reaching(connection, stream, time_us, after, through)
        )

    # -- sinks -------------------------------------------------------------------------------------

    def delivered(self, sink: str) -> EpochNumber:
        """The newest epoch that the sink took, 0 if none."""
        return self._store.read(lambda connection: self._notes.delivered(connection, sink))

    def deliveries(self) -> dict[str, tuple[str, EpochNumber]]:
        """By sink that ever took one: its stream, and the newest epoch that it took."""
        return self._store.read(self._notes.deliveries)

    def record_delivery(self, sink: str, stream: str, epoch: EpochNumber, *, by: Incarnation) -> None:
        """The sink has ``epoch``. Must be the next one, or already recorded (a repeat); a sink's first one is the
        oldest that is kept. Raises Fenced."""
        self._store.write(lambda tx: self._notes.record_delivery(tx, sink, stream, epoch, by, self._clock()))
        self._watch.nudge()

    # -- safe points -------------------------------------------------------------------------------

    def record_safe_point(
        self,
        fragment: str,
        epoch: EpochNumber,
        *,
        batch: int,
        built_on: EpochNumber,
        manifest: str,
        checksum: str,
        stores: Sequence[str],
        bytes: int,
        by: Incarnation,
    ) -> Secured:
        """Write once that stores hold the fragment's checkpoint at ``epoch``. A repeat counts as won.

        A proposal loses unless ``built_on`` is the newest safe point (0 if there is none) and ``epoch`` is
        newer: so what the newest one refers to is what the next one may refer to. Raises Fenced, and
        BrokenInvariant if the epoch is not claimed.
        """
        secured = self._store.write(
            lambda tx: self._safety.record(
                tx, fragment, epoch, batch, built_on, manifest, checksum, stores, bytes, by, self._clock()
            )
        )
        self._watch.nudge()
        return secured

    def safe_point(self, fragment: str) -> SafePoint | None:
        """The newest safe point."""
        return self._store.read(lambda connection: self._safety.newest(connection, fragment))

    def safe_points(self, fragment: str) -> list[SafePoint]:
        """All that are kept, oldest first."""
        return self._store.read(lambda connection: self._safety.all(connection, fragment))

    def retire_safe_points(self, fragment: str, *, keep: int, by: Incarnation) -> list[SafePoint]:
        """Forget all but the newest ``keep`` and the pinned ones; returns those kept. Raises Fenced."""
        return self._store.write(lambda tx: self._safety.retire(tx, fragment, keep, by))

    def pin(self, fragment: str, epoch: EpochNumber, why: str) -> None:
        """Keep a safe point until it is unpinned for the same reason. Raises BrokenInvariant if it is gone."""
        self._store.write(lambda tx: self._safety.pin(tx, fragment, epoch, why, self._clock()))

    def unpin(self, fragment: str, epoch: EpochNumber, why: str) -> None:
        """Drop one reason to keep a safe point; nothing happens if there was none."""
        self._store.write(lambda tx: self._safety.unpin(tx, fragment, epoch, why))

    def pins(self, fragment: str) -> dict[EpochNumber, tuple[str, ...]]:
        """The pinned safe points, and why each is."""
        return self._store.read(lambda connection: self._safety.pins(connection, fragment))

    # -- all of it ---------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        """Everything that is on record at one moment; damaged records are in it as such."""
        return ledger_of(self._store.snapshot(lambda connection: read_rows(connection, self._tables)))

    def record_file(self, file: str, code: str) -> None:
        """The pipeline file that runs on this home from now on, and its fingerprint."""
        self._store.write(lambda tx: self._notes.record_file(tx, file, code))

    def file(self) -> tuple[str, str] | None:
        """The file that was last run, and its fingerprint then; None if none was ever recorded."""
        return self._store.read(self._notes.file)

    # -- trimming ----------------------------------------------------------------------------------

    def trim_epochs(self, stream: str, before: EpochNumber, *, by: Incarnation, gone: Collection[str] = ()) -> None:
        """Forget the epochs of ``stream`` before ``before``; the head always stays.

        Raises Fenced, and StillNeeded, naming who, if a sink on record has not taken one of them, or a fragment on
        record reads one in what it has not published yet or would compute again from a pinned safe point. ``gone``
        are sinks and fragments that are not waited for. What a policy needs is not known here.
        """
        self._store.write(lambda tx: self._trimming.epochs(tx, stream, before, by, gone))

    def trim_claims(self, fragment: str, before: EpochNumber, *, by: Incarnation) -> None:
        """Forget the claims of ``fragment`` before ``before``; the last one and the one before it always stay.

        Raises Fenced, and StillNeeded if the epoch of one of them is kept or not published, or if one of them comes
        after a pinned safe point, or is that of it.
        """
        self._store.write(lambda tx: self._trimming.claims(tx, fragment, before, by))

    def trim_events(self, *, keep: int, by: Incarnation) -> None:
        """Forget all but the newest ``keep`` events, and all but about as many failed attempts. Raises Fenced."""
        self._store.write(lambda tx: self._trimming.events(tx, keep, by))

    # -- failures ----------------------------------------------------------------------------------

    def record_attempt(self, subject: str, epoch: EpochNumber, *, by: Incarnation) -> int:
        """Count a failed attempt at an epoch; returns how many there were, over all incarnations. Raises Fenced."""
        key = uuid.uuid4().hex
        return self._store.write(lambda tx: self._notes.record_attempt(tx, key, subject, epoch, by, self._clock()))

    def record_failure(self, subject: str, epoch: EpochNumber, *, reason: str, traceback: str, by: Incarnation) -> None:
        """A fragment or a sink stopped for good. Replaces an older failure of it."""
        self._store.write(
            lambda tx: self._notes.record_failure(tx, subject, epoch, reason, traceback, by, self._clock())
        )

    def clear_failures(self) -> None:
        """A new run tries again: forget failures and attempts."""
        self._store.write(self._notes.clear_failures)

    def failures(self) -> list[Failure]:
        return self._store.read(self._notes.failures)

    # -- events ------------------------------------------------------------------------------------

    def event(self, kind: str, subject: str, *, at_s: float | None = None, **detail: Any) -> None:
        """Note something that happened, for people; now, unless ``at_s`` says when."""
        key = uuid.uuid4().hex
        now_s = self._clock() if at_s is None else at_s
        self._store.write(lambda tx: self._notes.event(tx, key, kind, subject, detail, now_s))

    def events(self, *, after: int = 0, limit: int | None = None, kinds: Sequence[str] = ()) -> list[Event]:
        return self._store.read(lambda connection: self._notes.events(connection, after, limit, kinds))

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, seen: int, timeout_s: float) -> int:
        """Return soon after something was claimed, published, delivered, fenced or promoted since ``seen``, at the
        latest after ``timeout_s``. Returns a token for the next call; start with 0. May return early."""
        return self._watch.wait(seen, timeout_s)
