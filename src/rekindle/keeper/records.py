"""The records that the keeper holds, as frozen dataclasses, and the names that may appear in them.

Nothing here knows of Spark, of a database, or of the file system.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

from rekindle.errors import BrokenInvariant, DeclarationError

EpochNumber = NewType("EpochNumber", int)
"""Epochs of a stream, and of a fragment, count 1, 2, 3, ... without holes. 0 means: none yet."""

Incarnation = NewType("Incarnation", int)
"""One life of a node. The keeper hands them out, always growing; a fenced one never comes back."""

Position = Any
"""How far an input was read: an epoch number for a stream, any JSON value for a source."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
REJECTED_SUFFIX = "_rejected"


def check_name(name: str, what: str, *, where: str = "") -> str:
    """Return ``name`` if it may name a pipeline, a stream or a node; raise DeclarationError if not.

    Names become folders, tables and file names, so they are plain: this is what keeps every path
    inside the home.
    """
    if not isinstance(name, str) or not NAME.match(name):
        raise DeclarationError(
            f"{what} {name!r} is not a usable name",
            detail=where,
            hint="use 1 to 63 lower-case letters, digits and underscores, starting with a letter",
        )
    if name.startswith("rekindle") or name.endswith(REJECTED_SUFFIX):
        raise DeclarationError(
            f"{what} {name!r} is a reserved name",
            detail=where,
            hint=f"names that start with 'rekindle' or end with '{REJECTED_SUFFIX}' belong to Rekindle",
        )
    return name


@dataclass(frozen=True, slots=True)
class Span:
    """What one input contributes to one epoch: everything after ``after``, up to ``through``.

    For a stream both are epoch numbers (``after`` exclusive, ``through`` inclusive). For a source they
    are positions that only the source understands; ``None`` is the beginning.
    """

    after: Position
    through: Position

    def to_json(self) -> dict[str, Any]:
        return {"after": self.after, "through": self.through}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Span:
        return Span(value["after"], value["through"])


@dataclass(frozen=True, slots=True)
class Claim:
    """The write-once record of what epoch ``epoch`` of ``fragment`` consumes."""

    fragment: str
    epoch: EpochNumber
    spans: Mapping[str, Span]
    incarnation: Incarnation
    claimed_at_s: float = 0.0


def needed_input(stream: str, claim: Claim | None, before: Claim | None) -> EpochNumber:
    """The oldest epoch of ``stream`` that a fragment takes in who computes on from ``claim``, or, where that is not
    made yet, after ``before``, the one before it. 1 if neither tells: nothing of the stream may go.
    """
    if claim is not None:
        return EpochNumber(claim.spans[stream].after + 1 if stream in claim.spans else 1)
    return EpochNumber(before.spans[stream].through + 1 if before is not None and stream in before.spans else 1)


@dataclass(frozen=True, slots=True)
class Segment:
    """One immutable Parquet file. ``path`` is relative to the home, ``checksum`` is XXH3-64 in hex."""

    path: str
    rows: int
    bytes: int
    checksum: str

    def to_json(self) -> list[Any]:
        return [self.path, self.rows, self.bytes, self.checksum]

    @staticmethod
    def from_json(value: list[Any]) -> Segment:
        return Segment(value[0], value[1], value[2], value[3])


@dataclass(frozen=True, slots=True)
class Output:
    """What a fragment wants to publish on one of its streams: the proposal of an epoch.

    The event times are those of the stream's first timestamp column, None where that is not known of every segment.
    ``watermark_us`` is the watermark that the computation of this epoch went by, None if there was none.
    ``dropped`` is not None for an epoch that was not computed but skipped: how many rows of its input were dropped,
    and the fragment's state with them.
    """

    segments: tuple[Segment, ...]
    rows: int
    bytes: int
    digest: str
    event_time_min_us: int | None = None
    event_time_max_us: int | None = None
    watermark_us: int | None = None
    dropped: int | None = None

    def __post_init__(self) -> None:
        if self.dropped is not None and self.rows:
            raise BrokenInvariant("an epoch whose input was dropped has rows", detail=f"{self.rows}")
        if self.rows != sum(s.rows for s in self.segments):
            raise BrokenInvariant(
                "an epoch's row count is not the sum of its segments' row counts",
                detail=f"{self.rows} against {[s.rows for s in self.segments]}",
            )


EMPTY_DIGEST = "0:0:0"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The write-once record of what epoch ``epoch`` of ``stream`` contains."""

    stream: str
    epoch: EpochNumber
    fragment: str
    output: Output
    incarnation: Incarnation
    published_at_s: float


@dataclass(frozen=True, slots=True)
class Published:
    """The answer to publish: the records in force, and whether this proposal made them."""

    won: bool
    epochs: Mapping[str, Epoch]


@dataclass(frozen=True, slots=True)
class SafePoint:
    """The write-once record that enough stores hold a fragment's checkpoint at ``epoch``.

    ``manifest`` is the name of an object that says which files the checkpoint has and where they are; ``stores``
    hold copies of it, ``checksum`` is its XXH3-64. ``built_on`` is the safe point before, 0 if none: it was the
    newest when this one was recorded. ``bytes`` is the size of the whole checkpoint.
    """

    fragment: str
    epoch: EpochNumber
    batch: int
    built_on: EpochNumber
    manifest: str
    checksum: str
    stores: tuple[str, ...]
    bytes: int
    incarnation: Incarnation
    recorded_at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Secured:
    """The answer to record_safe_point: whether this proposal is on record, and the newest safe point."""

    won: bool
    newest: SafePoint


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A stream as it was first declared. ``schema`` is Spark's JSON of a StructType."""

    stream: str
    fragment: str
    schema: str
    inputs: tuple[str, ...]
    guarantee: str


@dataclass(frozen=True, slots=True)
class Member:
    """One incarnation of a node, as the keeper knows it.

    ``beats`` counts heartbeats: a supervisor judges a lease by whether this number moved during its own
    monotonic time, so the clocks of two hosts never need to agree.
    ``pid_started`` is the process's start time in clock ticks since boot, against reused pids.
    """

    node: str
    incarnation: Incarnation
    state: str  # starting | running | left | fenced
    want: str  # run | drain
    host: str
    pid: int
    pid_started: int
    beats: int
    code: str  # fingerprint of the pipeline file and the settings that it runs
    enlisted_at_s: float
    report: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who does what only one may do. ``before`` is the incarnation whose place was just taken, by this call."""

    subject: str
    incarnation: Incarnation
    live: bool
    before: Incarnation | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A fragment or a sink that stopped for good, with the user's own traceback."""

    subject: str
    epoch: EpochNumber
    reason: str
    traceback: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, for people to read afterwards."""

    id: int
    at_s: float
    kind: str
    subject: str
    detail: Mapping[str, Any]
