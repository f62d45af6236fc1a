"""What a crash did to an output, by the definitions of the literature. Pure functions.

An output is compared epoch by epoch with what an undisturbed run gave. Let R be the rows of an epoch there, and think
of a receiver that keeps the newest version of each epoch, as an upsert by the epoch's key would.

    precise      R, once: as if nothing had died
    gap          rows of R never came, or were gone at the end
    repeating    rows of R came again, identical
    convergent   rows came again, other than before; what the receiver ends with is R all the same
    divergent    what the receiver ends with is not R, and not just for want of rows

An output can suffer from a gap and a rollback (one of the last three) at once. Where an undisturbed run does not repeat
itself, nobody knows R: then the first whole version of an epoch stands for it, and another version is divergent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rekindle.guarantees import NEITHER
from rekindle.recovery.policy import AT_LEAST_ONCE, AT_MOST_ONCE, PRECISE

GAP = "gap"
REPEATING = "repeating"
CONVERGENT = "convergent"
DIVERGENT = "divergent"
ROLLBACKS = (REPEATING, CONVERGENT, DIVERGENT)
"""From harmless to bad."""

EXAMPLES_MAX = 3
DIGITS = 12
"""Sums of doubles depend on the order of their terms in the last of their 16 digits."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows of one epoch that came in one go, in a form that is equal if and only if the rows are, and those rows of
    the epoch that were gone by then."""

    epoch: int
    rows: tuple[str, ...]
    at_s: float
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """An epoch of which rows are missing. ``on_record`` says that Rekindle dropped that many rows of input itself."""

    epoch: int
    rows: int
    on_record: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "rows": self.rows, "on_record": self.on_record}


@dataclass(frozen=True, slots=True)
class Example:
    """One row that is not as it should be. ``expected`` or ``seen`` is None where there is none."""

    epoch: int
    what: str  # lost | repeated | changed | unexpected
    expected: str | None
    seen: str | None

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "what": self.what, "expected": self.expected, "seen": self.seen}


@dataclass(frozen=True, slots=True)
class Finding:
    """An output judged. ``rows`` is what was to come, ``repeated`` rows came again as they were, ``changed`` ones came
    with another content, ``unexpected`` ones should not be there at all."""

    rows: int
    received: int
    gaps: tuple[Gap, ...] = ()
    rollback: str | None = None
    repeated: int = 0
    changed: int = 0
    unexpected: int = 0
    examples: tuple[Example, ...] = ()

    @property
    def lost(self) -> int:
        return sum(gap.rows for gap in self.gaps)

    @property
    def verdict(self) -> str:
        """In a word, or two."""
        parts = [GAP] if self.gaps else []
        parts += [self.rollback] if self.rollback else []
        return " and ".join(parts) or PRECISE

    def holds(self, promised: str) -> bool:
        """Whether whoever was promised a guarantee got it."""
        if promised == PRECISE:
            return not self.gaps and self.rollback is None
        harmless = self.rollback in (None, REPEATING)
        if promised == AT_LEAST_ONCE:
            return harmless and not self.gaps
        if promised == AT_MOST_ONCE:
            return self.rollback is None
        return promised == NEITHER and harmless

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "rows": self.rows,
            "received": self.received,
            "lost": self.lost,
            "repeated": self.repeated,
            "changed": self.changed,
            "unexpected": self.unexpected,
            "gaps": [gap.to_json() for gap in self.gaps],
            "examples": [example.to_json() for example in self.examples],
        }


def classify(
    expected: Mapping[int, Sequence[str]],
    arrivals: Iterable[Arrival],
    *,
    repeatable: bool = True,
    dropped: Mapping[int, int] | None = None,
    agreed: int = 0,
) -> Finding:
    """Judge what came, in the order in which it came. Of epochs that are not ``expected`` nothing is known but what
    came: they are judged as if they were not ``repeatable``.

    ``dropped`` are the rows of input by epoch that are dropped on record. ``agreed`` rows of epochs that are left out
    of both were compared already, and are as they should be.
    """
    came: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        came.setdefault(arrival.epoch, []).append(arrival)
    tally = _Tally(agreed)
    for epoch in sorted(expected.keys() | came.keys()):
        pieces = came.get(epoch, [])
        if epoch not in expected:
            tally.judge(epoch, _first_whole(pieces, None), pieces)
        elif repeatable:
            tally.judge(epoch, Counter(expected[epoch]), pieces)
        else:
            due = len(expected[epoch])
            right = _first_whole(pieces, due)
            tally.judge(epoch, right, pieces)
            if right.total() < due:
                tally.lose(epoch, due - right.total())
    for epoch, rows in sorted((dropped or {}).items()):
        if rows:  # an epoch that had no input was dropped without any loss
            tally.gaps.append(Gap(epoch, rows, on_record=True))
    return tally.finding()


def canonical(row: str) -> str:
    """A row of JSON in the form in which it is compared: columns by name, doubles with 12 digits. What
    is not JSON stays as it is."""
    if not row.startswith(("{", "[")):
        return row
    try:
        value = orjson.loads(row)
    except orjson.JSONDecodeError:
        return row
    return orjson.dumps(_rounded(value), option=orjson.OPT_SORT_KEYS).decode()


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS - 1}e}")
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return value


def _first_whole(pieces: Sequence[Arrival], due: int | None) -> Counter[str]:
    """The first version with as many rows as are due; the largest one if none has."""
    whole = [piece for piece in pieces if due is None or len(piece.rows) == due]
    if not whole and pieces:
        whole = [max(pieces, key=lambda piece: len(piece.rows))]
    return Counter(whole[0].rows) if whole else Counter()


class _Tally:
    """Damage as it is found, epoch after epoch."""

    def __init__(self, agreed: int) -> None:
        self.gaps: list[Gap] = []
        self._agreed = agreed
        self._rows = self._received = 0
        self._repeated = self._changed = self._unexpected = 0
        self._rollback = -1
        self._examples: dict[str, list[Example]] = {}

    def judge(self, epoch: int, right: Counter[str], pieces: Sequence[Arrival]) -> None:
        """One epoch: what it should hold, and what came of it."""
        present: Counter[str] = Counter()
        ever: Counter[str] = Counter()
        gone: Counter[str] = Counter()
        for piece in pieces:
            present -= Counter(piece.gone)
            gone += Counter(piece.gone)
            present += Counter(piece.rows)
            ever += Counter(piece.rows)
        self._rows += right.total()
        self._received += ever.total()
        again = ever - right  # beyond what is right
        identical = Counter({row: n for row, n in again.items() if row in right})
        foreign = again - identical
        newest = Counter(pieces[-1].rows) if pieces else Counter()
        missing = right - present
        diverges = bool(newest - right) or bool(foreign and missing)
        changed = min(foreign.total(), missing.total()) if diverges else foreign.total()
        if identical:
            self._repeat(epoch, identical)
        if foreign:
            self._differ(epoch, foreign, missing if missing else gone & right or right, diverges, changed)
        left = missing.total() - (changed if diverges else 0)
        if left > 0:
            self.lose(epoch, left, missing)

    def lose(self, epoch: int, rows: int, which: Counter[str] | None = None) -> None:
        self.gaps.append(Gap(epoch, rows))
        for row in list((which or Counter()).elements())[:rows][:EXAMPLES_MAX]:
            self._example(Example(epoch, "lost", row, None))

    def finding(self) -> Finding:
        return Finding(
            rows=self._agreed + self._rows,
            received=self._agreed + self._received,
            gaps=tuple(sorted(self.gaps, key=lambda gap: gap.epoch)),
            rollback=None if self._rollback < 0 else ROLLBACKS[self._rollback],
            repeated=self._repeated,
            changed=self._changed,
            unexpected=self._unexpected,
            examples=tuple(example for found in self._examples.values() for example in found),
        )

    def _repeat(self, epoch: int, rows: Counter[str]) -> None:
        self._worse(REPEATING)
        self._repeated += rows.total()
        for row in list(rows)[:EXAMPLES_MAX]:
            self._example(Example(epoch, "repeated", row, row))

    def _differ(self, epoch: int, foreign: Counter[str], instead: Counter[str], diverges: bool, changed: int) -> None:
        self._worse(DIVERGENT if diverges else CONVERGENT)
        self._changed += changed
        self._unexpected += foreign.total() - changed
        due = [*instead.elements()][:EXAMPLES_MAX]
        for index, row in enumerate([*foreign.elements()][:EXAMPLES_MAX]):
            if index < changed:
                self._example(Example(epoch, "changed", due[index] if index < len(due) else None, row))
            else:
                self._example(Example(epoch, "unexpected", None, row))

    def _worse(self, rollback: str) -> None:
        self._rollback = max(self._rollback, ROLLBACKS.index(rollback))

    def _example(self, example: Example) -> None:
        kept = self._examples.setdefault(example.what, [])
        if len(kept) < EXAMPLES_MAX:
            kept.append(example)
