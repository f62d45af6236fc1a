"""The oracle against a computation row by row in plain Python, and against the pipeline's own declaration."""

from __future__ import annotations

from typing import Any

import orjson
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.demo import fraud, oracle
from rekindle.demo.oracle import Starts, closed_windows, expected_rows, generated, iso
from rekindle.demo.scale import Scale
from rekindle.sources.rate import Rate

T0 = 1_700_000_000_000_000
COUNTRIES = ("AT", "BR", "CA", "DE", "FR", "IN", "JP", "US")
Row = dict[str, int]


def country(row: Row, at_home_below: int) -> str:
    away = 0 if row["value"] < at_home_below else row["value"] % 7 + 1
    return COUNTRIES[(row["key"] + away) % 8]


def brute_force(payments: list[Row], logins: list[Row]) -> dict[str, str]:
    windows: dict[tuple[int, int], dict[str, int]] = {}
    newest = None
    for paid in payments:
        for login in logins:
            if paid["key"] != login["key"] or not 0 <= paid["ts_us"] - login["ts_us"] <= 2_000_000:
                continue
            newest = paid["ts_us"] if newest is None else max(newest, paid["ts_us"])
            cents = 100 + 25 * paid["value"] + paid["seq"] % 25
            start = paid["ts_us"] - paid["ts_us"] % 1_000_000
            sums = windows.setdefault(
                (start, paid["key"]),
                {"matches": 0, "cents": 0, "elsewhere": 0, "elsewhere_cents": 0, "largest_cents": 0},
            )
            sums["matches"] += 1
            sums["cents"] += cents
            sums["largest_cents"] = max(sums["largest_cents"], cents)
            if country(paid, 950) != country(login, 900):
                sums["elsewhere"] += 1
                sums["elsewhere_cents"] += cents
    if newest is None:
        return {}
    watermark_ms = newest // 1000 - 2000
    return {
        f"second={iso(start)} account={account}": orjson.dumps(sums, option=orjson.OPT_SORT_KEYS).decode()
        for (start, account), sums in windows.items()
        if start // 1000 + 1000 <= watermark_ms
    }


def rows_of(frame: pd.DataFrame) -> list[Row]:
    rows: list[Row] = frame.to_dict("records")
    return rows


@pytest.mark.parametrize("start_us", [T0, T0 + 1, T0 + 999_999, T0 + 500_500])
def test_generated_streams_agree_with_plain_python(start_us: int) -> None:
    scale = Scale(payments_per_s=40, logins_per_s=13, seconds=6, accounts=7)
    payments = generated(40, 7, oracle.PAYMENTS_SEED, 6, start_us)
    logins = generated(13, 7, oracle.LOGINS_SEED, 6, start_us + 321_987)
    rows = expected_rows(scale, Starts(start_us, start_us + 321_987))
    assert rows == brute_force(rows_of(payments), rows_of(logins))
    assert len(rows) > 10
    assert any(orjson.loads(content)["elsewhere"] for content in rows.values())


def stream(times: list[int]) -> list[Row]:
    return [
        {"ts_us": T0 + time, "seq": seq, "key": time % 3, "value": (time * 37) % 1000}
        for seq, time in enumerate(sorted(times))
    ]


# Times around the edges: the bound of the join, the ends of windows, the millisecond of the watermark.
edges = st.builds(
    lambda base, off: base * 500_000 + off, st.integers(0, 16), st.sampled_from([-1000, -999, -1, 0, 1, 999, 1000])
).map(abs)
times = st.lists(st.one_of(st.integers(0, 8_000_000), edges), max_size=25)


@settings(max_examples=150, deadline=None)
@given(times, times)
def test_the_edges_agree_with_plain_python(paid: list[int], logged_in: list[int]) -> None:
    columns = ["ts_us", "seq", "key", "value"]
    payments, logins = stream(paid), stream(logged_in)
    got = closed_windows(pd.DataFrame(payments, columns=columns), pd.DataFrame(logins, columns=columns))
    assert got == brute_force(payments, logins)


def one(time_us: int) -> pd.DataFrame:
    return pd.DataFrame([{"ts_us": T0 + time_us, "seq": 0, "key": 1, "value": 5}])


def test_a_window_closes_when_the_watermark_reaches_its_end_in_whole_milliseconds() -> None:
    def windows(last_us: int) -> int:
        payments = pd.concat([one(500_000), one(last_us)], ignore_index=True)
        logins = pd.concat([one(400_000), one(last_us)], ignore_index=True)
        return len(closed_windows(payments, logins))

    assert windows(2_999_999) == 0
    assert windows(3_000_000) == 1


def test_only_joined_rows_move_the_watermark() -> None:
    payments = pd.concat([one(500_000), one(30_000_000)], ignore_index=True)
    assert closed_windows(payments, one(400_000)) == {}


def test_no_input_gives_no_rows() -> None:
    assert expected_rows(Scale(seconds=0), Starts(T0, T0)) == {}


def test_the_pipeline_file_declares_what_the_oracle_assumes() -> None:
    scale = Scale()
    for name, per_s, seed in (
        ("payments", scale.payments_per_s, oracle.PAYMENTS_SEED),
        ("logins", scale.logins_per_s, oracle.LOGINS_SEED),
    ):
        source: Any = fraud.pipeline.sources[name].source
        assert isinstance(source, Rate)
        expected = Rate(per_s, keys=scale.accounts, seed=seed, limit=per_s * scale.seconds)
        assert source.describe() == expected.describe()
    assert fraud.pipeline.nodes() == ("main", "score")
    assert fraud.pipeline.streams["matched"].node != fraud.pipeline.streams["scores"].node
