"""What a variant computes on: the same rows in another order, and a part of a fragment. No Spark runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle as rk
from rekindle.home import Home, create_or_open
from rekindle.keeper.records import Claim, Epoch, EpochNumber, Incarnation, Output, Segment, Span
from rekindle.node.claims import Work
from rekindle.node.variants import narrowed, shuffled, up_to
from rekindle.plan import Fragment, Traits, fuse
from rekindle.streams.segments import checksum, read_table
from rekindle.streams.writer import segment_name

E1 = EpochNumber(1)


def published(home: Home, stream: str, rows: int) -> Epoch:
    path = home.streams / stream / "000000000001-1-1" / segment_name(1, 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"n": list(range(rows))}), path)
    segment = Segment(str(path.relative_to(home.root)), rows, path.stat().st_size, checksum(path))
    output = Output((segment,) if rows else (), rows, segment.bytes, f"{rows}:0:0")
    return Epoch(stream, E1, stream, output, Incarnation(1), 0.0)


def rows_of(home: Home, epoch: Epoch) -> list[int]:
    found: list[int] = read_table(home, [epoch]).column("n").to_pylist()
    return found


def test_rows_are_shuffled_within_their_epoch_and_put_into_other_files(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    a, b = published(home, "a", 100), published(home, "b", 5)
    work = Work(Claim("s", E1, {"a": Span(0, 1), "b": Span(0, 1)}, Incarnation(1)), {"a": [a], "b": [b]})
    once = shuffled(work, 7, home, home.work / "x", {"b"})
    (other,) = once.inputs["a"]
    assert rows_of(home, other) != rows_of(home, a) and sorted(rows_of(home, other)) == list(range(100))
    assert len(other.output.segments) > 1 and other.output.rows == 100
    assert once.inputs["b"] == [b], "its positions are read"
    again = shuffled(work, 7, home, home.work / "y", set())
    assert rows_of(home, again.inputs["a"][0]) == rows_of(home, other)
    assert sorted(rows_of(home, again.inputs["b"][0])) == list(range(5))
    third = shuffled(work, 8, home, home.work / "z", {"b"})
    assert rows_of(home, third.inputs["a"][0]) != rows_of(home, other)


def test_an_epoch_without_rows_stays_as_it_is(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "p", None)
    empty = Epoch("a", E1, "a", Output((), 0, 0, "0:0:0"), Incarnation(1), 0.0)
    work = Work(Claim("s", E1, {"a": Span(0, 1)}, Incarnation(1)), {"a": [empty]})
    assert shuffled(work, 7, home, home.work / "x", set()).inputs["a"] == [empty]


TRAITS = {"left": Traits(), "right": Traits(stateful=("an aggregate",)), "both": Traits(has_watermark=True)}


def diamond() -> Fragment:
    pipeline = rk.Pipeline("p")
    for name in ("a", "b"):
        pipeline.source(name, rk.sources.Rate(1))
    pipeline.stream(name="left")(lambda a: a)
    pipeline.stream(name="right", output_mode="update")(lambda b: b)
    pipeline.stream(name="both")(lambda left, right: left)
    (fragment,) = fuse(pipeline, TRAITS)
    return fragment


def test_a_part_is_what_an_operator_is_computed_by() -> None:
    whole = diamond()
    left, right, both = (up_to(whole, name, TRAITS) for name in ("left", "right", "both"))
    assert (left.name, [o.name for o in left.operators], left.inputs) == ("left", ["left"], ("a",))
    assert (left.stateful, left.output_mode, left.has_watermark) == (False, "append", False)
    assert (right.inputs, right.stateful, right.output_mode) == (("b",), True, "update")
    assert {o.name for o in both.operators} == {"left", "right", "both"} and both.inputs == whole.inputs
    assert both == whole


def test_a_part_takes_in_its_own_inputs() -> None:
    work = Work(Claim("both", E1, {"a": Span(0, 0), "b": Span(0, 0)}, Incarnation(1)), {"a": [], "b": []})
    assert narrowed(work, up_to(diamond(), "left", TRAITS)).inputs.keys() == {"a"}
