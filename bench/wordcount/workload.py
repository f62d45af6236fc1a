"""Windowed word count, the workload on which SEEP measured recovery.

Lines of words come at a rate; each word is counted in windows of event time, in update mode. The first lines name every
word once, so that the state has its full size from the start; after that words are drawn evenly, always the same for
the same line number. With a long window the state stays that large; with a short one it follows the rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench._workload import Numbers, Parameters, Scale, Step, Workload, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FIRST_MS = 1_700_000_000_000 // 60_000 * 60_000
LATE_S = 5
FILE_LINES = 25_000
LINES = "seq long, at_ms long, ts timestamp, line string"
PARAMETERS = MappingProxyType({"rate": 1_000, "words": 10_000, "window_s": 30, "words_per_line": 10})


def lines(first: int, count: int, parameters: Parameters) -> pa.Table:
    """The lines that are numbered from ``first`` on."""
    vocabulary, length = parameters["words"], parameters["words_per_line"]
    seq = np.arange(first, first + count)
    words = np.arange(first * length, (first + count) * length)
    drawn = np.random.default_rng(first).integers(0, vocabulary, count * length)
    named = np.where(words < vocabulary, words, drawn)
    offsets = pa.array(np.arange(0, count * length + 1, length, dtype=np.int32))
    names = pa.array([f"w{number:07d}" for number in range(vocabulary)])
    at_ms = FIRST_MS + np.maximum(0, seq - loading(parameters)) * 1000 // parameters["rate"]
    return pa.table(
        {
            "seq": pa.array(seq),
            "at_ms": pa.array(at_ms),
            "ts": pa.array(at_ms * 1000, pa.timestamp("us", "UTC")),
            "line": pc.binary_join(pa.ListArray.from_arrays(offsets, names.take(pa.array(named))), " "),
        }
    )


def loading(parameters: Parameters) -> int:
    """How many lines it takes to name every word."""
    return -(-int(parameters["words"]) // int(parameters["words_per_line"]))


def make(folder: Path, scale: Scale, parameters: Parameters) -> list[Step]:
    first = 0
    steps = []
    for index in range(scale.files):
        if scale.pace_s is None:
            count = FILE_LINES
        else:
            count = loading(parameters) if index == 0 else max(1, round(parameters["rate"] * scale.pace_s))
        table = lines(first, count, parameters)
        first += count
        due_s = 0.0 if scale.pace_s is None else index * scale.pace_s
        steps.append(written(folder, index, {"lines": table}, through=first - 1, due_s=due_s))
    return steps


def query(inputs: Mapping[str, DataFrame], parameters: Parameters) -> DataFrame:
    from bench.wordcount.counting import counted

    return counted(inputs["lines"], int(parameters["window_s"]))


def expected(steps: Sequence[Step], parameters: Parameters) -> pa.Table:
    """Counted without Spark: by pyarrow."""
    window_ms = parameters["window_s"] * 1000
    read = pa.concat_tables([pq.read_table(step.files["lines"], columns=["seq", "at_ms", "line"]) for step in steps])
    split = pc.split_pattern(read["line"], " ").combine_chunks()
    owners = pc.list_parent_indices(split)
    starts = pa.array(read["at_ms"].to_numpy() // window_ms * window_ms)
    each = pa.table(
        {
            "start_ms": starts.take(owners),
            "word": split.flatten(),
            "seq": read["seq"].combine_chunks().take(owners),
        }
    )
    found = each.group_by(["start_ms", "word"]).aggregate([("word", "count"), ("seq", "max")])
    return pa.table(
        {
            "start_ms": found["start_ms"],
            "word": found["word"],
            "n": found["word_count"],
            "seq": found["seq_max"],
        }
    )


def cause(output: pa.Table, _parameters: Parameters) -> Numbers:
    found: Numbers = output["seq"].to_numpy()
    return found


WORKLOADS = (
    Workload(
        name="wordcount",
        about="words counted in windows of event time, update mode (SEEP's recovery workload)",
        inputs={"lines": LINES},
        make=make,
        pipeline=Path(__file__).with_name("pipeline.py"),
        stream="counts",
        query=query,
        columns="start_ms long, word string, n long, seq long",
        key=("start_ms", "word"),
        mode="update",
        expected=expected,
        cause=cause,
        flink="""
            SELECT at_ms - MOD(at_ms, {window_s} * 1000) AS start_ms, word, COUNT(*) AS n, MAX(seq) AS seq
            FROM lines CROSS JOIN UNNEST(SPLIT(line, ' ')) AS split (word)
            GROUP BY at_ms - MOD(at_ms, {window_s} * 1000), word
        """,
        parameters=PARAMETERS,
    ),
)
