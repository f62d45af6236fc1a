"""A generator of rows at a fixed rate. The same seed gives the same rows, for ever and everywhere."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rekindle.clock import wall
from rekindle.errors import BrokenInvariant, DeclarationError
from rekindle.keeper.records import Position, Span
from rekindle.sources.base import Batch, Reader, Source

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import SparkSession

VALUES = 1000
CHUNK_ROWS = 1_000_000
MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rate:
    rows_per_s: float
    keys: int
    seed: int
    start_us: int | None
    limit: int | None
    late_s: float


class Rate(Source):
    """Rows (``ts timestamp, seq long, key long, value long``), ``rows_per_s`` of them a second.

    ``seq`` counts from 0. ``key`` is uniform in [0, keys), ``value`` in [0, 1000). ``ts`` is ``start`` +
    seq / rows_per_s, minus a lateness of up to ``late_s`` that differs from row to row. Everything but
    the start is a pure function of (seed, seq). ``start`` (seconds since 1970, or an aware datetime) is
    taken from the clock at the first claim unless given, and is on record in every claim after that.
    ``limit`` ends the stream after that many rows.
    """

    def __init__(
        self,
        rows_per_s: float,
        *,
        keys: int = 10_000,
        seed: int = 0,
        start: float | datetime | None = None,
        limit: int | None = None,
        late_s: float = 0.0,
        clock: Callable[[], float] = wall,
    ) -> None:
        if not (isinstance(rows_per_s, int | float) and 0 < rows_per_s < math.inf):
            raise DeclarationError(f"rows_per_s must be a number above 0, not {rows_per_s!r}")
        if not isinstance(keys, int) or not 0 < keys < 1 << 63:
            raise DeclarationError(f"keys must be a whole number above 0, not {keys!r}")
        if not isinstance(seed, int):
            raise DeclarationError(f"seed must be a whole number, not {seed!r}")
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise DeclarationError(f"limit must be a whole number, not {limit!r}")
        if not (isinstance(late_s, int | float) and 0 <= late_s < math.inf):
            raise DeclarationError(f"late_s must be a number of seconds, not {late_s!r}")
        if start is not None and not isinstance(start, int | float | datetime):
            raise DeclarationError(
                f"start must be seconds since 1970 or a datetime, not {start!r}",
                hint="datetime(2026, 1, 1, tzinfo=timezone.utc), for example",
            )
        if isinstance(start, datetime) and start.tzinfo is None:
            raise DeclarationError(
                f"start {start.isoformat()} has no time zone", hint="datetime(..., tzinfo=timezone.utc)"
            )
        start_s = start.timestamp() if isinstance(start, datetime) else start
        self._rate = _Rate(
            rows_per_s=rows_per_s,
            keys=keys,
            seed=seed,
            start_us=None if start_s is None else round(start_s * 1e6),
            limit=limit,
            late_s=late_s,
        )
        self._clock = clock

    @property
    def limit(self) -> int | None:
        """After how many rows it ends."""
        return self._rate.limit

    def limited(self, rows: int) -> Rate:
        """The same rows, at most so many."""
        limit = rows if self._rate.limit is None else min(rows, self._rate.limit)
        limited = copy.copy(self)
        limited._rate = replace(self._rate, limit=limit)
        return limited

    def rows(self, start_us: int, begin: int, end: int) -> pa.Table:
        """Rows ``begin`` to ``end`` (exclusive), computed without a node."""
        return rows(self._rate, start_us, begin, end)

    def schema(self, spark: SparkSession) -> Any:
        from pyspark.sql.types import LongType, StructType, TimestampType

        schema = StructType().add("ts", TimestampType())
        for name in ("seq", "key", "value"):
            schema = schema.add(name, LongType())
        return schema

    def open(self, history: Iterable[Position]) -> RateReader:
        return RateReader(self._rate, self._clock)

    @property
    def needs_history(self) -> bool:
        return False

    @property
    def has_rejects(self) -> bool:
        return False

    def describe(self) -> str:
        limit = "" if self._rate.limit is None else f", {self._rate.limit} rows in all"
        return f"rate: {self._rate.rows_per_s:g} rows/s, {self._rate.keys} keys, seed {self._rate.seed}{limit}"


@dataclass(slots=True)
class RateReader(Reader):
    """Position: ``{"start_us": when row 0 is due, "seq": rows claimed so far}``."""

    rate: _Rate
    clock: Callable[[], float]
    start_us: int | None = field(default=None)

    def newest(self, after: Position | None, rows_max: int) -> Position | None:
        now_us = int(self.clock() * 1e6)
        if after is not None:
            start_us, seq = int(after["start_us"]), int(after["seq"])
        else:
            if self.start_us is None:
                self.start_us = now_us if self.rate.start_us is None else self.rate.start_us
            start_us, seq = self.start_us, 0
        due = math.floor((now_us - start_us) * self.rate.rows_per_s / 1e6)
        if self.rate.limit is not None:
            due = min(due, self.rate.limit)
        through = min(due, seq + max(1, rows_max))
        return {"start_us": start_us, "seq": through} if through > seq else None

    def read(self, span: Span, batch: Batch) -> None:
        start_us, through = int(span.through["start_us"]), int(span.through["seq"])
        first = 0 if span.after is None else int(span.after["seq"])
        if span.after is not None and span.after["start_us"] != start_us:
            raise BrokenInvariant("two claims of one rate source have different starts", detail=f"{span}")
        for begin in range(first, through, CHUNK_ROWS):
            batch.add_table(rows(self.rate, start_us, begin, min(begin + CHUNK_ROWS, through)))


def rows(rate: _Rate, start_us: int, begin: int, end: int) -> pa.Table:
    """Rows ``begin`` to ``end`` (exclusive)."""
    import numpy as np
    import pyarrow as pa

    seq = np.arange(begin, end, dtype=np.int64)
    if isinstance(rate.rows_per_s, int) and end < MASK >> 21:
        ts = seq * 1_000_000 // rate.rows_per_s
    else:
        ts = np.floor(seq * (1e6 / rate.rows_per_s)).astype(np.int64)
    ts += start_us
    late_us = int(rate.late_s * 1e6)
    if late_us:
        ts -= _below(_random(seq, rate.seed, 3), late_us)
    return pa.table(
        {
            "ts": pa.array(ts).view(pa.timestamp("us", "UTC")),
            "seq": pa.array(seq),
            "key": pa.array(_below(_random(seq, rate.seed, 1), rate.keys)),
            "value": pa.array(_below(_random(seq, rate.seed, 2), VALUES)),
        }
    )


def _random(seq: npt.NDArray[np.int64], seed: int, column: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each row: the splitmix64 finaliser over a Weyl sequence that the seed starts."""
    import numpy as np

    start = _mix((_mix(seed & MASK) + column) & MASK)
    bits = seq.astype(np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits += np.uint64(start)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def _below(bits: npt.NDArray[np.uint64], bound: int) -> npt.NDArray[np.int64]:
    import numpy as np

    if bound <= 1 << 32:
        bits >>= np.uint64(32)
        bits *= np.uint64(bound)
        bits >>= np.uint64(32)
    else:
        bits %= np.uint64(bound)
    return bits.view(np.int64)
