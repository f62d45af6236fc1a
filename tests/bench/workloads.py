"""Workloads for tests: rows that come out as they went in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench._workload import Numbers, Parameters, Step, Workload, sliced

FILE_ROWS = 10


def rows(first: int, count: int, _parameters: Parameters) -> dict[str, pa.Table]:
    return {"rows": numbered(first, count)}


def numbered(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"seq": numbers, "value": numbers * 2})


def expected(steps: Sequence[Step], _parameters: Parameters) -> pa.Table:
    return pa.concat_tables([pq.read_table(step.files["rows"]) for step in steps])


def cause(output: pa.Table, _parameters: Parameters) -> Numbers:
    found: Numbers = output["seq"].to_numpy()
    return found


AS_IT_IS = Workload(
    name="as_it_is",
    about="rows come out as they went in",
    inputs={"rows": "seq long, value long"},
    make=sliced(rows, file_rows=FILE_ROWS, rate=lambda _parameters: 100),
    pipeline=Path(__file__),
    stream="same",
    query=None,
    columns="seq long, value long",
    key=("seq",),
    expected=expected,
    cause=cause,
    flink="SELECT seq, value FROM `rows` WHERE seq >= {least}",
    parameters={"least": 0},
)
