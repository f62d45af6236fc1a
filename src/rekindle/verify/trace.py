"""What a receiver saw, judged against what it should have seen. Pure functions; nothing here knows of Spark.

A trace is a list of observations: which row, with which content, seen when, and when it was gone again, if it
was. A trace is *precise* if every expected row was seen exactly once, with the expected content, and stayed. The
damage has names of its own, so that kinds of recovery can be told apart by it: a gap leaves lost rows, a
rollback leaves duplicated rows, equal (repeating) or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NewType

import orjson

RowKey = NewType("RowKey", str)
"""What names a row: no two expected rows have the same."""

Content = NewType("Content", str)
"""Everything else in the row, in a form that is equal if and only if the rows are."""

EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class Observation:
    """One row as a receiver saw it. ``gone_s`` is when it was noticed to be gone, None if it stayed."""

    key: RowKey
    content: Content
    seen_s: float
    gone_s: float | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """One damaged row: what was expected under its key (None: nothing), and what was seen, in order."""

    key: RowKey
    expected: Content | None
    seen: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """How many rows suffered one kind of damage, and a few of them."""

    rows: int = 0
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A trace judged. One row can suffer several kinds of damage; each is counted where it belongs.

    ``lost``        expected rows that were never seen, or were all gone at the end
    ``duplicated``  observations that came while the same key was there already
    ``changed``     observations of an expected key with another content than expected
    ``unexpected``  observations whose key was not expected
    ``withdrawn``   observations that were gone again, whatever came after
    """

    expected: int
    delivered: int
    lost: Damage
    duplicated: Damage
    changed: Damage
    unexpected: Damage
    withdrawn: Damage

    @property
    def damages(self) -> Mapping[str, Damage]:
        """Every kind of damage by its name."""
        names = ("lost", "duplicated", "changed", "unexpected", "withdrawn")
        return {name: getattr(self, name) for name in names}

    @property
    def is_precise(self) -> bool:
        return all(damage.rows == 0 for damage in self.damages.values())

    def to_json(self) -> dict[str, Any]:
        counts: dict[str, Any] = {name: damage.rows for name, damage in self.damages.items()}
        examples = {
            name: [{"key": e.key, "expected": e.expected, "seen": list(e.seen)} for e in damage.examples]
            for name, damage in self.damages.items()
            if damage.rows
        }
        known = {"precise": self.is_precise, "expected": self.expected, "delivered": self.delivered}
        return {**known, **counts, "examples": examples}


@dataclass(frozen=True, slots=True)
class Pause:
    """A stretch of time in which nothing arrived."""

    since_s: float
    until_s: float

    @property
    def length_s(self) -> float:
        return self.until_s - self.since_s


def keyed(row: Mapping[str, Any], key: tuple[str, ...]) -> tuple[RowKey, Content]:
    """A row as its key and its content. A key column that is missing counts as null."""
    name = " ".join(f"{column}={row.get(column)}" for column in key)
    rest = {column: value for column, value in row.items() if column not in key}
    return RowKey(name), Content(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS).decode())


def judge(trace: Iterable[Observation], expected: Mapping[RowKey, Content]) -> Verdict:
    """Compare what was seen with what should have been. Observations count in the order of ``seen_s``."""
    by_key: dict[RowKey, list[Observation]] = {}
    delivered = 0
    for observation in sorted(trace, key=lambda o: o.seen_s):
        by_key.setdefault(observation.key, []).append(observation)
        delivered += 1
    tally = _Tally()
    for key, content in expected.items():
        seen = by_key.get(key, [])
        if all(o.gone_s is not None for o in seen):
            tally.add("lost", 1, key, content, seen)
        tally.add("changed", sum(o.content != content for o in seen), key, content, seen)
    for key, seen in by_key.items():
        due = expected.get(key)
        if key not in expected:
            tally.add("unexpected", len(seen), key, None, seen)
        tally.add("duplicated", _came_on_top(seen), key, due, seen)
        tally.add("withdrawn", sum(o.gone_s is not None for o in seen), key, due, seen)
    return Verdict(
        expected=len(expected),
        delivered=delivered,
        lost=tally.damage("lost"),
        duplicated=tally.damage("duplicated"),
        changed=tally.damage("changed"),
        unexpected=tally.damage("unexpected"),
        withdrawn=tally.damage("withdrawn"),
    )


def longest_pause(arrivals: Iterable[float], *, input_ended_s: float) -> Pause | None:
    """The longest stretch without an arrival, of those that began while input was running.

    It counts from the first arrival, so the start of the pipeline is no pause. A stretch that begins before
    ``input_ended_s`` counts whole, up to the next arrival; if none comes, up to the end of the input. None if
    nothing arrived before the input ended.
    """
    times = sorted(set(arrivals))
    if not times or times[0] >= input_ended_s:
        return None
    ends = [*times[1:], max(times[-1], input_ended_s)]
    pauses = [Pause(since_s, until_s) for since_s, until_s in zip(times, ends, strict=True) if since_s < input_ended_s]
    return max(pauses, key=lambda pause: pause.length_s)


def _came_on_top(seen: list[Observation]) -> int:
    """How many observations of one key came while an earlier one was still there."""
    count = 0
    for index, later in enumerate(seen):
        if any(earlier.gone_s is None or earlier.gone_s > later.seen_s for earlier in seen[:index]):
            count += 1
    return count


class _Tally:
    """Damage as it is found."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._examples: dict[str, list[Example]] = {}

    def add(self, kind: str, rows: int, key: RowKey, expected: Content | None, seen: list[Observation]) -> None:
        if rows == 0:
            return
        self._rows[kind] = self._rows.get(kind, 0) + rows
        examples = self._examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(Example(key, expected, tuple(o.content for o in seen)))

    def damage(self, kind: str) -> Damage:
        return Damage(self._rows.get(kind, 0), tuple(self._examples.get(kind, ())))
