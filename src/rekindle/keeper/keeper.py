"""The keeper's verbs, on one SQL schema, over SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rekindle.keeper.records import (
    Claim,
    Epoch,
    EpochNumber,
    Event,
    Failure,
    Incarnation,
    Member,
    Output,
    Published,
    Span,
    StreamRecord,
)


class Keeper:
    """Every method is one transaction, safe to call from any thread and any process, and safe to repeat.

    While the database cannot be reached a method waits and tries again, at most ``patience_s``; then it
    raises KeeperUnavailable. ``clock`` gives the seconds since 1970 that go into records.
    """

    def __init__(self, url: str, *, home_id: str, pipeline: str, clock: Callable[[], float], patience_s: float) -> None:
        raise NotImplementedError

    def close(self) -> None: ...

    # -- nodes -------------------------------------------------------------------------------------

    def enlist(self, node: str, *, code: str) -> Incarnation:
        """A new incarnation of ``node``, state 'starting', want 'run'. Every older one of it is fenced."""
        raise NotImplementedError

    def present(self, by: Incarnation, *, host: str, pid: int, pid_started: int) -> None:
        """The process of an incarnation introduces itself (or its supervisor does). Raises Fenced."""
        raise NotImplementedError

    def beat(self, by: Incarnation, report: Mapping[str, Any]) -> str:
        """Count a heartbeat, state becomes 'running'; returns what is wanted: 'run' or 'drain'. Raises Fenced."""
        raise NotImplementedError

    def want(self, incarnation: Incarnation, what: str) -> None:
        """Set what an incarnation is wanted to do: 'run' or 'drain'."""
        raise NotImplementedError

    def leave(self, by: Incarnation) -> None:
        """A clean goodbye: state 'left'. A fenced incarnation stays fenced."""
        raise NotImplementedError

    def fence(self, incarnation: Incarnation, why: str) -> bool:
        """From now on this incarnation claims, publishes and delivers nothing. False if it had left or was fenced."""
        raise NotImplementedError

    def members(self, *, live: bool = True) -> list[Member]:
        """Incarnations that are starting or running (``live``), or all there ever were, oldest first."""
        raise NotImplementedError

    # -- streams -----------------------------------------------------------------------------------

    def record_stream(self, record: StreamRecord) -> StreamRecord:
        """Insert if absent; returns the record in force."""
        raise NotImplementedError

    def streams(self) -> dict[str, StreamRecord]:
        raise NotImplementedError

    # -- claim and publish -------------------------------------------------------------------------

    def claim(self, fragment: str, epoch: EpochNumber, spans: Mapping[str, Span], *, by: Incarnation) -> Claim:
        """Write once which input ``epoch`` consumes. The first proposal wins; returns the claim in force.

        Raises Fenced, and BrokenInvariant for a proposal that (while the epoch is unclaimed) is not dense,
        whose spans do not start where the fragment's last claim ended, run backwards, or run ahead of what
        is published. A span is a stream's if a stream of that name is recorded whose fragment is not this one
        (checked as epoch numbers against its head), otherwise a source's (checked only for ``after`` equal to
        the last ``through``).
        """
        raise NotImplementedError

    def publish(
        self, fragment: str, epoch: EpochNumber, outputs: Mapping[str, Output], *, by: Incarnation
    ) -> Published:
        """Write once what ``epoch`` contains, on all of the fragment's streams at once. The first wins.

        A repeat of the same proposal (same segments, by the same incarnation) counts as the one that won,
        so that a lost answer can be asked again. Raises Fenced, and BrokenInvariant if the epoch is not
        claimed, or not the next one of each of the streams.
        """
        raise NotImplementedError

    def claim_of(self, fragment: str, epoch: EpochNumber) -> Claim | None:
        raise NotImplementedError

    def last_claim(self, fragment: str) -> Claim | None:
        raise NotImplementedError

    def claims(self, fragment: str, *, after: int = 0) -> Iterator[Claim]:
        """Claims in order of epoch, read in pages."""
        raise NotImplementedError

    def head(self, stream: str) -> EpochNumber:
        """The newest published epoch, 0 if none."""
        raise NotImplementedError

    def heads(self) -> dict[str, Epoch]:
        """The newest epoch of every stream that has one."""
        raise NotImplementedError

    def epoch(self, stream: str, epoch: EpochNumber) -> Epoch | None:
        raise NotImplementedError

    def epochs(self, stream: str, *, after: int, through: int | None = None, limit: int | None = None) -> list[Epoch]:
        """Published epochs in (after, through], in order."""
        raise NotImplementedError

    # -- sinks -------------------------------------------------------------------------------------

    def delivered(self, sink: str) -> EpochNumber:
        """The newest epoch that the sink took, 0 if none."""
        raise NotImplementedError

    def record_delivery(self, sink: str, stream: str, epoch: EpochNumber, *, by: Incarnation) -> None:
        """The sink has ``epoch``. Must be the next one, or already recorded (a repeat). Raises Fenced."""
        raise NotImplementedError

    # -- failures ----------------------------------------------------------------------------------

    def record_attempt(self, subject: str, epoch: EpochNumber, *, by: Incarnation) -> int:
        """Count a failed attempt at an epoch; returns how many there were, over all incarnations."""
        raise NotImplementedError

    def record_failure(
        self, subject: str, epoch: EpochNumber, *, reason: str, traceback: str, by: Incarnation
    ) -> None:
        """A fragment or a sink stopped for good. Replaces an older failure of it."""
        raise NotImplementedError

    def clear_failures(self) -> None:
        """A new run tries again: forget failures and attempts."""
        raise NotImplementedError

    def failures(self) -> list[Failure]:
        raise NotImplementedError

    # -- events ------------------------------------------------------------------------------------

    def event(self, kind: str, subject: str, **detail: Any) -> None:
        """Note something that happened, for people."""
        raise NotImplementedError

    def events(self, *, after: int = 0, limit: int | None = None, kinds: Sequence[str] = ()) -> list[Event]:
        raise NotImplementedError

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, seen: int, timeout_s: float) -> int:
        """Return soon after something was claimed, published or delivered since ``seen``; at the latest after
        ``timeout_s``. Returns a token for the next call; start with 0. May return early."""
        raise NotImplementedError
