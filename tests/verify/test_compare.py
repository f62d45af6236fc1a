"""Two runs compared: outcomes that are made up, with real segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from rekindle.home import Home
from rekindle.keeper.records import Epoch, EpochNumber, Incarnation, Output, Segment
from rekindle.pipeline import Pipeline
from rekindle.streams.segments import checksum
from rekindle.verify.classify import Arrival, Finding, Gap
from rekindle.verify.compare import Outcome, behind_gaps, judge_sink, judge_stream, settled, stream_rows

Rows = Mapping[int, list[int]]


def home(folder: Path) -> Home:
    return Home(folder, "p", "home", "sqlite")


def epoch(at: Home, number: int, rows: list[int], *, dropped: int | None = None) -> Epoch:
    """An epoch with one segment; its digest is that of the rows, whatever their order."""
    path = at.root / "streams" / "s" / f"{number}-{len(list(at.root.rglob('*.parquet')))}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), path)
    segment = Segment(str(path.relative_to(at.root)), len(rows), path.stat().st_size, checksum(path))
    output = Output((segment,) if rows else (), len(rows), 1, str(sorted(rows)), dropped=dropped)
    return Epoch("s", EpochNumber(number), "s", output, Incarnation(1), 0.0)


def outcome(at: Home, epochs: list[Epoch], *, sinks: Mapping[str, list[Arrival]] | None = None) -> Outcome:
    return Outcome(at, {"s": epochs}, sinks or {}, {}, {}, {})


def judged(tmp_path: Path, right: Rows, run: Rows, *, repeatable: bool = True) -> Finding:
    one, other = home(tmp_path / "right"), home(tmp_path / "run")
    return judge_stream(
        "s",
        outcome(one, [epoch(one, n, rows) for n, rows in right.items()]),
        outcome(other, [epoch(other, n, rows) for n, rows in run.items()]),
        comparable=True,
        repeatable=repeatable,
    )


def test_equal_digests_are_enough(tmp_path: Path) -> None:
    finding = judged(tmp_path, {1: [1, 2], 2: [3]}, {1: [2, 1], 2: [3]})
    assert finding.verdict == "precise" and finding.rows == finding.received == 3


def test_where_digests_differ_rows_are_compared(tmp_path: Path) -> None:
    finding = judged(tmp_path, {1: [1, 2], 2: [3]}, {1: [1, 2], 2: [4]})
    assert finding.verdict == "divergent" and finding.changed == 1
    assert [(e.expected, e.seen) for e in finding.examples] == [('{"n":3}', '{"n":4}')]
    assert judged(tmp_path / "2", {1: [1, 2]}, {1: [1]}).gaps == (Gap(1, 1),)
    assert judged(tmp_path / "3", {1: [1, 2], 2: [3]}, {1: [1, 2]}).gaps == (Gap(2, 1),)


def test_what_the_undisturbed_run_did_not_reach_is_left_out(tmp_path: Path) -> None:
    assert judged(tmp_path, {1: [1]}, {1: [1], 2: [5]}).verdict == "precise"


def test_what_does_not_repeat_itself_is_compared_by_its_number_of_rows(tmp_path: Path) -> None:
    assert judged(tmp_path, {1: [1, 2]}, {1: [8, 9]}, repeatable=False).verdict == "precise"
    assert judged(tmp_path / "2", {1: [1, 2]}, {1: [8]}, repeatable=False).gaps == (Gap(1, 1),)


def test_an_epoch_that_was_changed_after_it_was_seen(tmp_path: Path) -> None:
    at = home(tmp_path)
    before, after = epoch(at, 1, [1]), epoch(at, 1, [2])
    right = outcome(at, [before])
    run = replace(outcome(at, [after]), changed={"s": [(before, after)]})
    assert judge_stream("s", right, run, comparable=True, repeatable=True).verdict == "divergent"
    assert judge_stream("s", right, run, comparable=False, repeatable=True).verdict == "divergent"
    gone = replace(outcome(at, []), changed={"s": [(before, None)]})
    assert judge_stream("s", right, gone, comparable=True, repeatable=True).verdict == "precise"


def test_behind_a_gap_only_what_was_dropped_counts(tmp_path: Path) -> None:
    at = home(tmp_path)
    right = outcome(at, [epoch(at, 1, [1]), epoch(at, 2, [2])])
    run = outcome(at, [epoch(at, 1, [1]), epoch(at, 2, [], dropped=7), epoch(at, 3, [9])])
    finding = judge_stream("s", right, run, comparable=False, repeatable=True)
    assert finding.verdict == "gap" and finding.gaps == (Gap(2, 7, on_record=True),)


def test_a_segment_that_cannot_be_read_is_told_in_place_of_its_rows(tmp_path: Path) -> None:
    at = home(tmp_path)
    damaged = epoch(at, 1, [1])
    (at.root / damaged.output.segments[0].path).write_bytes(b"")
    (row,) = stream_rows(at, damaged)
    assert row.startswith("unreadable: a segment of epoch 1")


def test_a_sink_is_compared_with_what_it_held_in_the_end(tmp_path: Path) -> None:
    at = home(tmp_path)
    held = [Arrival(1, ("draft",), 0.0), Arrival(1, ("final",), 1.0, ("draft",))]
    assert settled(held) == {1: ["final"]}
    right = outcome(at, [], sinks={"k": held})
    run = outcome(at, [], sinks={"k": [Arrival(1, ("final",), 0.0)]})
    assert judge_sink("k", "s", right, run, comparable=True, repeatable=True).verdict == "precise"
    assert judge_sink("k", "s", right, right, comparable=True, repeatable=True).verdict == "convergent"


def test_a_sink_behind_a_gap_must_have_as_many_rows_as_its_stream(tmp_path: Path) -> None:
    at = home(tmp_path)
    run = outcome(at, [epoch(at, 1, [1, 2])], sinks={"k": [Arrival(1, ("a", "b"), 0.0)]})
    assert judge_sink("k", "s", run, run, comparable=False, repeatable=True).verdict == "precise"
    short = replace(run, sinks={"k": [Arrival(1, ("a",), 0.0)]})
    assert judge_sink("k", "s", run, short, comparable=False, repeatable=True).gaps == (Gap(1, 1),)


def test_which_streams_are_behind_a_gap() -> None:
    pipeline = Pipeline("p")
    pipeline.source("a", rk.sources.Rate(1))
    pipeline.stream(name="b", recovery=rk.Gap())(lambda a: a)
    pipeline.stream(name="c")(lambda b: b)
    pipeline.stream(name="d")(lambda a, c: a)
    pipeline.stream(name="e")(lambda a: a)
    assert behind_gaps(pipeline) == {"b", "c", "d"}
