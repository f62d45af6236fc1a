"""The keeper's tables."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, Double, Index, MetaData, Table, Text

SCHEMA_VERSION = 3

COUNTERS = ("incarnations", "attempts", "events", "changes")
"""Rows of ``counters``. Whoever adds one to a counter has the turn until his transaction ends."""


@dataclass(frozen=True, slots=True)
class Tables:
    """One set of tables: a SQLite file's, or those of one PostgreSQL schema."""

    metadata: MetaData
    meta: Table
    counters: Table
    incarnations: Table
    owners: Table
    streams: Table
    claims: Table
    epochs: Table
    deliveries: Table
    safe_points: Table
    pins: Table
    attempts: Table
    failures: Table
    events: Table


def tables(schema: str | None) -> Tables:
    """Describe the tables inside ``schema`` (PostgreSQL), or without one (SQLite)."""
    metadata = MetaData(schema=schema)

    def text(name: str, *, key: bool = False, null: bool = False) -> Column[str]:
        return Column(name, Text, primary_key=key, nullable=null)

    def whole(name: str, *, key: bool = False, null: bool = False) -> Column[int]:
        return Column(name, BigInteger, primary_key=key, nullable=null, autoincrement=False)

    def time(name: str) -> Column[float]:
        return Column(name, Double, nullable=False)

    return Tables(
        metadata=metadata,
        meta=Table("meta", metadata, text("name", key=True), text("value")),
        counters=Table("counters", metadata, text("name", key=True), whole("value")),
        incarnations=Table(
            "incarnations",
            metadata,
            whole("incarnation", key=True),
            text("node"),
            text("state"),
            text("want"),
            text("host"),
            whole("pid"),
            whole("pid_started"),
            whole("beats"),
            text("code"),
            time("enlisted_at_s"),
            text("report"),
            text("fenced_why"),
            text("fenced_key"),  # which call of fence did it, so that its repeat can tell
            Index("incarnations_by_state", "state"),
        ),
        owners=Table(
            "owners",
            metadata,
            text("subject", key=True),
            whole("incarnation"),
            time("since_s"),
        ),
        streams=Table(
            "streams",
            metadata,
            text("stream", key=True),
            text("fragment"),
            text("schema"),
            text("inputs"),
            text("guarantee"),
        ),
        claims=Table(
            "claims",
            metadata,
            text("fragment", key=True),
            whole("epoch", key=True),
            text("spans"),
            whole("incarnation"),
            time("claimed_at_s"),
        ),
        epochs=Table(
            "epochs",
            metadata,
            text("stream", key=True),
            whole("epoch", key=True),
            text("fragment"),
            text("segments"),
            whole("rows"),
            whole("bytes"),
            text("digest"),
            whole("event_time_min_us", null=True),
            whole("event_time_max_us", null=True),
            whole("watermark_us", null=True),
            whole("dropped", null=True),  # rows of input, where it was published without being computed
            whole("incarnation"),
            time("published_at_s"),
        ),
        deliveries=Table(
            "deliveries",
            metadata,
            text("sink", key=True),
            text("stream"),
            whole("epoch"),
            whole("incarnation"),
            time("delivered_at_s"),
        ),
        safe_points=Table(
            "safe_points",
            metadata,
            text("fragment", key=True),
            whole("epoch", key=True),
            whole("batch"),
            whole("built_on"),
            text("manifest"),
            text("checksum"),
            text("stores"),
            whole("bytes"),
            whole("incarnation"),
            time("recorded_at_s"),
        ),
        pins=Table(
            "pins",
            metadata,
            text("fragment", key=True),
            whole("epoch", key=True),
            text("why", key=True),
            time("pinned_at_s"),
        ),
        attempts=Table(
            "attempts",
            metadata,
            text("key", key=True),  # made by the caller, so that a repeat is not counted twice
            text("subject"),
            whole("epoch"),
            whole("incarnation"),
            time("at_s"),
            Index("attempts_by_subject", "subject", "epoch"),
        ),
        failures=Table(
            "failures",
            metadata,
            text("subject", key=True),
            whole("epoch"),
            text("reason"),
            text("traceback"),
            whole("incarnation"),
            time("at_s"),
        ),
        events=Table(
            "events",
            metadata,
            whole("id", key=True),
            Column("key", Text, nullable=False, unique=True),
            time("at_s"),
            text("kind"),
            text("subject"),
            text("detail"),
        ),
    )
