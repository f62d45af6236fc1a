"""The word count's input and its own count of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from bench._workload import Scale
from bench.wordcount.workload import FIRST_MS, WORKLOADS, loading

WORDS = WORKLOADS[0].with_parameters(rate=100, words=45, window_s=2)


def test_the_first_step_names_every_word_once_and_the_rest_come_at_the_rate(tmp_path: Path) -> None:
    steps = WORDS.make(tmp_path, Scale(files=4, pace_s=0.1), WORDS.parameters)
    assert [step.rows for step in steps] == [loading(WORDS.parameters), 10, 10, 10]
    assert [step.due_s for step in steps] == [0.0, 0.1, 0.2, 0.30000000000000004]
    assert [step.through for step in steps] == [4, 14, 24, 34]
    first = pq.read_table(steps[0].files["lines"])
    words = [word for line in first["line"].to_pylist() for word in line.split()]
    assert set(words) == {f"w{number:07d}" for number in range(45)}
    assert set(first["at_ms"].to_pylist()) == {FIRST_MS}


def test_the_same_parameters_are_the_same_files(tmp_path: Path) -> None:
    one = WORDS.make(tmp_path / "one", Scale(3), WORDS.parameters)
    two = WORDS.make(tmp_path / "two", Scale(3), WORDS.parameters)
    for a, b in zip(one, two, strict=True):
        assert pq.read_table(a.files["lines"]).equals(pq.read_table(b.files["lines"]))


def test_what_is_expected_is_what_a_loop_counts(tmp_path: Path) -> None:
    steps = WORDS.make(tmp_path, Scale(files=60, pace_s=0.1), WORDS.parameters)
    counts: Counter[tuple[int, str]] = Counter()
    newest: dict[tuple[int, str], int] = {}
    for step in steps:
        for row in pq.read_table(step.files["lines"]).to_pylist():
            for word in row["line"].split():
                key = (row["at_ms"] // 2000 * 2000, word)
                counts[key] += 1
                newest[key] = row["seq"]
    assert WORDS.expected is not None
    rows = WORDS.expected(steps, WORDS.parameters).to_pylist()
    assert {(r["start_ms"], r["word"]): (r["n"], r["seq"]) for r in rows} == {k: (counts[k], newest[k]) for k in counts}
    assert len({start for start, _ in counts}) == 3
