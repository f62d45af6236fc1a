"""Declaring a workload, finding it, setting its parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench._workload import Parameters, Scale, WorkloadError, all_workloads, fields, picked, sliced
from bench.wordcount.workload import WORKLOADS


def test_every_workload_declares_what_the_suite_needs() -> None:
    for name, workload in all_workloads().items():
        assert workload.pipeline.exists(), name
        assert set(workload.key) <= set(workload.names), name
        assert workload.mode == "append" or workload.cause is not None, f"{name}: which row is newest?"
        assert workload.expected or workload.check or workload.query, f"{name}: nothing to compare with"


def test_a_wrong_name_is_told_with_the_right_one() -> None:
    assert [w.name for w in picked(["wordcount"])] == ["wordcount"]
    with pytest.raises(WorkloadError, match="did you mean 'wordcount'"):
        picked(["wordcounts"])


def test_a_parameter_keeps_its_type_and_its_name() -> None:
    assert WORKLOADS[0].with_parameters(rate="50").parameters["rate"] == 50
    with pytest.raises(WorkloadError, match="no parameter 'rates'; did you mean 'rate'"):
        WORKLOADS[0].with_parameters(rates=1)
    with pytest.raises(WorkloadError, match=r"wordcount\.rate must be int"):
        WORKLOADS[0].with_parameters(rate="fast")


def test_fields_of_a_schema() -> None:
    assert fields("a long, b string") == {"a": "long", "b": "string"}
    assert replace(WORKLOADS[0], columns="x long, y double").names == ["x", "y"]


def test_numbered_rows_are_sliced_into_steps_without_holes(tmp_path: Path) -> None:
    def rows(first: int, count: int, _parameters: Parameters) -> dict[str, pa.Table]:
        numbers = np.arange(first, first + count)
        return {"even": pa.table({"n": numbers[numbers % 2 == 0]}), "odd": pa.table({"n": numbers[numbers % 2 == 1]})}

    make = sliced(rows, file_rows=1000, rate=lambda parameters: parameters["rate"])
    big = make(tmp_path / "big", Scale(2), {})
    assert [(step.rows, step.through, step.due_s) for step in big] == [(1000, 999, 0.0), (1000, 1999, 0.0)]
    paced = make(tmp_path / "paced", Scale(3, pace_s=0.1), {"rate": 10})
    assert [(step.rows, step.through, round(step.due_s, 3)) for step in paced] == [(1, 0, 0), (1, 1, 0.1), (1, 2, 0.2)]
    assert [list(step.files) for step in paced] == [["even"], ["odd"], ["even"]]
