"""Records to rows and back. What is written is checked before, what is read is checked again.

A ``Check`` speaks for one record: a value that does not fit raises BrokenInvariant and says which record.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NoReturn

from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import (
    Claim,
    Epoch,
    EpochNumber,
    Event,
    Failure,
    Incarnation,
    Member,
    Output,
    Segment,
    Span,
    StreamRecord,
)

Row = Mapping[str, Any]
STATES = ("starting", "running", "left", "fenced")
LIVE = ("starting", "running")
WANTS = ("run", "drain")
_WHOLE_MAX = 2**63 - 1


class Check:
    """Checks the values of one record; ``record`` names it, ``why`` says what it means when one is bad."""

    def __init__(self, record: str, why: str) -> None:
        self.record = record
        self.why = why

    def fail(self, field: str, value: Any, wanted: str) -> NoReturn:
        raise BrokenInvariant(f"{self.record} {self.why}", detail=f"{field} is {repr(value)[:200]}, not {wanted}")

    def whole(self, field: str, value: Any, least: int = 0) -> int:
        if type(value) is not int or not least <= value <= _WHOLE_MAX:
            self.fail(field, value, f"a whole number from {least}")
        return value

    def time_us(self, field: str, value: Any) -> int | None:
        return None if value is None else self.whole(field, value, -_WHOLE_MAX)

    def seconds(self, field: str, value: Any) -> float:
        if type(value) not in (float, int) or not math.isfinite(value):
            self.fail(field, value, "a time in seconds")
        return float(value)

    def text(self, field: str, value: Any) -> str:
        if type(value) is not str or "\0" in value or not _encodable(value):
            self.fail(field, value, "plain text")
        return value

    def one_of(self, field: str, value: Any, allowed: tuple[str, ...]) -> str:
        if value not in allowed:
            self.fail(field, value, "one of " + ", ".join(allowed))
        return str(value)

    def dump(self, field: str, value: Any) -> str:
        try:
            return canonical(value)
        except (TypeError, ValueError, RecursionError):
            self.fail(field, value, "something that JSON can hold")

    def load(self, field: str, value: Any) -> Any:
        try:
            return json.loads(value)
        except (TypeError, ValueError, RecursionError):
            self.fail(field, value, "JSON")

    def load_object(self, field: str, value: Any) -> dict[str, Any]:
        loaded = self.load(field, value)
        if not isinstance(loaded, dict):
            self.fail(field, value, "a JSON object")
        return loaded


def writing(record: str) -> Check:
    return Check(record, "is not fit to be recorded")


def reading(record: str) -> Check:
    return Check(record, "is damaged in the keeper")


def canonical(value: Any) -> str:
    """The one JSON text of a value: two values are the same position if these are equal."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def legible(text: str) -> str:
    """Any text in a form that every database stores."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _encodable(text: str) -> bool:
    return text.isascii() or text == text.encode("utf-8", "replace").decode()


def spans_text(check: Check, spans: Mapping[str, Span]) -> str:
    for name, span in spans.items():
        check.text("an input", name)
        if not isinstance(span, Span):
            check.fail(f"the span of {name}", span, "a Span")
    return check.dump("spans", {name: span.to_json() for name, span in spans.items()})


def claim(row: Row) -> Claim:
    check = reading(f"the claim of epoch {row['epoch']!r} of fragment {row['fragment']!r}")
    spans: dict[str, Span] = {}
    for name, value in check.load_object("spans", row["spans"]).items():
        if not isinstance(value, dict) or value.keys() != {"after", "through"}:
            check.fail(f"the span of {name}", value, "an object of 'after' and 'through'")
        spans[name] = Span.from_json(value)
    return Claim(
        fragment=check.text("fragment", row["fragment"]),
        epoch=EpochNumber(check.whole("epoch", row["epoch"], 1)),
        spans=spans,
        incarnation=Incarnation(check.whole("incarnation", row["incarnation"], 1)),
        claimed_at_s=check.seconds("claimed_at_s", row["claimed_at_s"]),
    )


def output_row(check: Check, output: Output) -> dict[str, Any]:
    for segment in output.segments:
        _segment(check, segment.to_json())
    return {
        "segments": check.dump("segments", [segment.to_json() for segment in output.segments]),
        "rows": check.whole("rows", output.rows),
        "bytes": check.whole("bytes", output.bytes),
        "digest": check.text("digest", output.digest),
        "event_time_min_us": check.time_us("event_time_min_us", output.event_time_min_us),
        "event_time_max_us": check.time_us("event_time_max_us", output.event_time_max_us),
        "watermark_us": check.time_us("watermark_us", output.watermark_us),
        "dropped": None if output.dropped is None else check.whole("dropped", output.dropped),
    }


def epoch(row: Row) -> Epoch:
    check = reading(f"epoch {row['epoch']!r} of stream {row['stream']!r}")
    segments = check.load("segments", row["segments"])
    if not isinstance(segments, list):
        check.fail("segments", segments, "a list")
    parts = tuple(_segment(check, segment) for segment in segments)
    rows = check.whole("rows", row["rows"])
    if rows != sum(segment.rows for segment in parts):
        check.fail("rows", rows, "the sum of its segments' rows")
    output = Output(
        segments=parts,
        rows=rows,
        bytes=check.whole("bytes", row["bytes"]),
        digest=check.text("digest", row["digest"]),
        event_time_min_us=check.time_us("event_time_min_us", row["event_time_min_us"]),
        event_time_max_us=check.time_us("event_time_max_us", row["event_time_max_us"]),
        watermark_us=check.time_us("watermark_us", row["watermark_us"]),
        dropped=None if row["dropped"] is None else check.whole("dropped", row["dropped"]),
    )
    return Epoch(
        stream=check.text("stream", row["stream"]),
        epoch=EpochNumber(check.whole("epoch", row["epoch"], 1)),
        fragment=check.text("fragment", row["fragment"]),
        output=output,
        incarnation=Incarnation(check.whole("incarnation", row["incarnation"], 1)),
        published_at_s=check.seconds("published_at_s", row["published_at_s"]),
    )


def _segment(check: Check, value: Any) -> Segment:
    if not isinstance(value, list) or len(value) != 4:
        check.fail("a segment", value, "[path, rows, bytes, checksum]")
    path = PurePosixPath(check.text("a segment's path", value[0]))
    if not value[0] or path.is_absolute() or ".." in path.parts:
        check.fail("a segment's path", value[0], "a path inside the home")
    check.whole("a segment's rows", value[1])
    check.whole("a segment's bytes", value[2])
    check.text("a segment's checksum", value[3])
    return Segment.from_json(value)


def stream_row(record: StreamRecord) -> dict[str, Any]:
    check = writing(f"stream {record.stream!r}")
    return {
        "stream": check.text("stream", record.stream),
        "fragment": check.text("fragment", record.fragment),
        "schema": check.text("schema", record.schema),
        "inputs": check.dump("inputs", [check.text("an input", name) for name in record.inputs]),
        "guarantee": check.text("guarantee", record.guarantee),
    }


def stream(row: Row) -> StreamRecord:
    check = reading(f"stream {row['stream']!r}")
    inputs = check.load("inputs", row["inputs"])
    if not isinstance(inputs, list):
        check.fail("inputs", inputs, "a list of names")
    return StreamRecord(
        stream=check.text("stream", row["stream"]),
        fragment=check.text("fragment", row["fragment"]),
        schema=check.text("schema", row["schema"]),
        inputs=tuple(check.text("an input", name) for name in inputs),
        guarantee=check.text("guarantee", row["guarantee"]),
    )


def member(row: Row) -> Member:
    check = reading(f"incarnation {row['incarnation']!r} of node {row['node']!r}")
    return Member(
        node=check.text("node", row["node"]),
        incarnation=Incarnation(check.whole("incarnation", row["incarnation"], 1)),
        state=check.one_of("state", row["state"], STATES),
        want=check.one_of("want", row["want"], WANTS),
        host=check.text("host", row["host"]),
        pid=check.whole("pid", row["pid"]),
        pid_started=check.whole("pid_started", row["pid_started"]),
        beats=check.whole("beats", row["beats"]),
        code=check.text("code", row["code"]),
        enlisted_at_s=check.seconds("enlisted_at_s", row["enlisted_at_s"]),
        report=check.load_object("report", row["report"]),
    )


def failure(row: Row) -> Failure:
    check = reading(f"the failure of {row['subject']!r}")
    return Failure(
        subject=check.text("subject", row["subject"]),
        epoch=EpochNumber(check.whole("epoch", row["epoch"])),
        reason=check.text("reason", row["reason"]),
        traceback=check.text("traceback", row["traceback"]),
        at_s=check.seconds("at_s", row["at_s"]),
    )


def event(row: Row) -> Event:
    check = reading(f"event {row['id']!r}")
    return Event(
        id=check.whole("id", row["id"], 1),
        at_s=check.seconds("at_s", row["at_s"]),
        kind=check.text("kind", row["kind"]),
        subject=check.text("subject", row["subject"]),
        detail=check.load_object("detail", row["detail"]),
    )
