"""How each type looks in JSON and CSV."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rekindle.sinks.render import chunks
from tests.sinks.deliveries import delivery

AT = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
US = pa.timestamp("us", "UTC")


def line(tmp_path: Path, kind: pa.DataType, value: Any, format: str = "json") -> str:
    table = pa.table({"v": pa.array([value], kind)})
    return b"".join(chunks(format, delivery(tmp_path, table))).decode()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (US, AT, '"2026-01-02T03:04:05.678900Z"'),
        (pa.timestamp("us"), AT.replace(tzinfo=None), '"2026-01-02T03:04:05.678900"'),
        (pa.date32(), date(2026, 1, 2), '"2026-01-02"'),
        (pa.decimal128(38, 4), Decimal("1234567890123456789012345678901234.5600"), None),
        (pa.decimal128(20, 10), Decimal("0.0000000001"), "0.0000000001"),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.float32(), 0.1, "0.1"),
        (pa.float32(), float("inf"), '"Infinity"'),
        (pa.int64(), -(2**63), "-9223372036854775808"),
        (pa.bool_(), True, "true"),
        (pa.string(), 'é"\n', '"é\\"\\n"'),
        (pa.list_(pa.float64()), [1.0, None, float("nan")], '[1.0,null,"NaN"]'),
        (pa.struct([("a", US), ("b", pa.int8())]), {"a": AT, "b": 1}, '{"a":"2026-01-02T03:04:05.678900Z","b":1}'),
        (pa.struct([("d", pa.decimal128(3, 1))]), {"d": None}, '{"d":null}'),
        (pa.map_(pa.string(), pa.binary()), [("k", b"a"), ("n", None)], '{"k":"YQ==","n":null}'),
        (pa.map_(pa.int32(), pa.int32()), [(1, 2)], '{"1":2}'),
        (pa.map_(US, pa.int32()), [(AT, 2)], '{"2026-01-02T03:04:05.678900Z":2}'),
        (pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.float32()))])), [{"m": [("x", 0.1)]}], '[{"m":{"x":0.1}}]'),
    ],
)
def test_json(tmp_path: Path, kind: pa.DataType, value: Any, wanted: str | None) -> None:
    rendered = line(tmp_path, kind, value)
    assert rendered == f'{{"v":{wanted or value}}}\n'
    json.loads(rendered)
    assert line(tmp_path, kind, None) == '{"v":null}\n'


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (US, AT, "2026-01-02 03:04:05.678900Z"),
        (pa.decimal128(20, 10), Decimal("1.5"), "1.5000000000"),
        (pa.string(), 'a,"b"', '"a,""b"""'),
        (pa.string(), "", '""'),
        (pa.string(), None, ""),
        (pa.int64(), 7, "7"),
        (pa.float64(), float("nan"), "nan"),
    ],
)
def test_csv(tmp_path: Path, kind: pa.DataType, value: Any, wanted: str) -> None:
    assert line(tmp_path, kind, value, "csv") == f'"v"\n{wanted}\n'
