"""What ``fraud.py`` must deliver, computed again without Spark, from the generators alone.

The generators' rows follow from their seeds and from when they started, which is on record. The rest is
arithmetic, written here a second time: the join, the windows, and which of the windows are closed at the end.
A window comes out when the watermark has reached its end; the last watermark is the greatest event time among
the joined rows, in whole milliseconds as Spark keeps it, less the delay. No row is ever late: each generator's
rows are in order, and rows of the join are out of order by its time bound at the most, which is the delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rekindle.demo.scale import Scale
from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import Span
from rekindle.sources.rate import Rate
from rekindle.verify.trace import Content, RowKey, keyed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

PAYMENTS_SEED = 11
LOGINS_SEED = 23
BOUND_US = 2_000_000
DELAY_US = 2_000_000
WINDOW_US = 1_000_000
KEY = ("second", "account")

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Starts:
    """When row 0 of each generator was due, in microseconds since 1970."""

    payments_us: int
    logins_us: int


def expected_rows(scale: Scale, starts: Starts) -> dict[RowKey, Content]:
    """Every row that must have been delivered when all of the input is used up."""
    payments = generated(scale.payments_per_s, scale.accounts, PAYMENTS_SEED, scale.seconds, starts.payments_us)
    logins = generated(scale.logins_per_s, scale.accounts, LOGINS_SEED, scale.seconds, starts.logins_us)
    return closed_windows(payments, logins)


def closed_windows(payments: pd.DataFrame, logins: pd.DataFrame) -> dict[RowKey, Content]:
    """The closed windows of generated payments and logins: frames of (ts_us, seq, key, value), in order of ts_us."""
    pairs = _pairs(payments, logins)
    if pairs.empty:
        return {}
    watermark_us = int(pairs["paid_us"].max()) // 1000 * 1000 - DELAY_US
    pairs["second_us"] = pairs["paid_us"] // WINDOW_US * WINDOW_US
    closed = pairs[pairs["second_us"] + WINDOW_US <= watermark_us]
    sums = closed.groupby(["second_us", "account"], sort=True).agg(
        matches=("cents", "size"),
        cents=("cents", "sum"),
        elsewhere=("elsewhere", "sum"),
        elsewhere_cents=("elsewhere_cents", "sum"),
        largest_cents=("cents", "max"),
    )
    rows = {}
    for (second_us, account), values in zip(sums.index, sums.itertuples(index=False), strict=True):
        row = {"second": iso(int(second_us)), "account": int(account)}
        key, content = keyed(row | {name: int(value) for name, value in zip(sums.columns, values, strict=True)}, KEY)
        rows[key] = content
    return rows


def iso(us: int) -> str:
    """A time as the file sink writes it."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")


def generated(rows_per_s: int, accounts: int, seed: int, seconds: int, start_us: int) -> pd.DataFrame:
    """All rows of one generator: (ts_us, seq, key, value)."""
    import pandas as pd

    limit = rows_per_s * seconds
    batch = _Rows()
    if limit:
        reader = Rate(rows_per_s, keys=accounts, seed=seed, limit=limit).open([])
        reader.read(Span(None, {"start_us": start_us, "seq": limit}), batch)
    columns: dict[str, list[Integers]] = {"ts_us": [], "seq": [], "key": [], "value": []}
    for table in batch.tables:
        columns["ts_us"].append(table["ts"].cast("int64").to_numpy())
        for name in ("seq", "key", "value"):
            columns[name].append(table[name].to_numpy())
    none = np.zeros(0, dtype=np.int64)
    frame = pd.DataFrame({name: np.concatenate([none, *parts]) for name, parts in columns.items()})
    if not frame["ts_us"].is_monotonic_increasing or len(frame) != limit:
        raise BrokenInvariant("the generator's rows are not in order, or not all there", detail=f"{len(frame)} rows")
    return frame


def _pairs(payments: pd.DataFrame, logins: pd.DataFrame) -> pd.DataFrame:
    """Every payment with every login of the same account from BOUND_US before it up to its own time."""
    import pandas as pd

    parts = []
    logins_of = dict(list(logins.groupby("key")))
    for account, paid in payments.groupby("key"):
        if account not in logins_of:
            continue
        logged_in = logins_of[account]
        times = logged_in["ts_us"].to_numpy()
        first = np.searchsorted(times, paid["ts_us"].to_numpy() - BOUND_US, side="left")
        past = np.searchsorted(times, paid["ts_us"].to_numpy(), side="right")
        counts = past - first
        which_paid = np.repeat(np.arange(len(paid)), counts)
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        which_login = np.repeat(first, counts) + steps
        cents = (paid["value"] * 25 + paid["seq"] % 25 + 100).to_numpy()[which_paid]
        paid_in = _country(paid, 950)[which_paid]
        elsewhere = (paid_in != _country(logged_in, 900)[which_login]).astype(np.int64)
        parts.append(
            pd.DataFrame(
                {
                    "account": np.full(len(cents), account, dtype=np.int64),
                    "paid_us": paid["ts_us"].to_numpy()[which_paid],
                    "cents": cents,
                    "elsewhere": elsewhere,
                    "elsewhere_cents": cents * elsewhere,
                }
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _country(rows: pd.DataFrame, at_home_below: int) -> Integers:
    """The number of a row's country."""
    value, key = rows["value"].to_numpy(), rows["key"].to_numpy()
    away = np.where(value < at_home_below, 0, value % 7 + 1)
    number: Integers = (key + away) % 8
    return number


@dataclass(slots=True)
class _Rows:
    """Takes what a generator reads; a Batch without Spark."""

    tables: list[pa.Table] = field(default_factory=list)

    @property
    def spark(self) -> SparkSession:
        raise BrokenInvariant("a generator needs no Spark")

    def add_table(self, rows: pa.Table) -> None:
        self.tables.append(rows)

    def add_parquet(self, file: Any) -> None:
        raise BrokenInvariant("a generator brings no files", detail=str(file))

    def add_frame(self, rows: Any) -> None:
        raise BrokenInvariant("a generator brings no frames", detail=str(rows))

    def reject(self, *, origin: str, reason: str, row: str | None = None) -> None:
        raise BrokenInvariant("a generator rejects nothing", detail=reason)

    def reject_frame(self, rows: Any) -> None:
        raise BrokenInvariant("a generator rejects nothing", detail=str(rows))
