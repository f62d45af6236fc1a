"""What a soak checks, and the order of its faults: without a pipeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Output, Segment, Span
from rekindle.streams.segments import checksum
from rekindle.verify.faults import KINDS
from rekindle.verify.soak import WEIGHTS, WEIGHTS_KEEPER, deck, steps
from rekindle.verify.soak_check import Check, Oracle, Seen, is_flat
from tests.keeper.place import Place

START_US = 1_700_000_000_000_000
ROWS_PER_S = 100
THROUGH = 500  # five seconds
ORACLE = Oracle(ROWS_PER_S, START_US)


class Stage:
    """Publishes what the pipeline 'everything' would, or something a little else."""

    def __init__(self, folder: Path) -> None:
        self.place = Place(folder, None)
        self.home: Home = self.place.home
        self.keeper: Keeper = self.place.open()
        self.by: Incarnation = self.keeper.enlist("main", code="c")
        self.out = folder / "out"

    def publish(
        self, stream: str, rows: pa.Table | None, *, seq: int | None = None, dropped: int | None = None
    ) -> None:
        number = EpochNumber(self.keeper.head(stream) + 1)
        segments: tuple[Segment, ...] = ()
        if rows is not None and rows.num_rows:
            path = Path("streams") / stream / f"{number}.parquet"
            full = self.home.root / path
            full.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, full)
            segments = (Segment(str(path), rows.num_rows, full.stat().st_size, checksum(full)),)
        last = self.keeper.last_claim(stream)
        after = None if last is None else last.spans[stream].through
        through = {"start_us": START_US, "seq": number if seq is None else seq}
        self.keeper.claim(stream, number, {stream: Span(after, through)}, by=self.by)
        output = Output(segments, sum(s.rows for s in segments), 1, f"{number}", dropped=dropped)
        self.keeper.publish(stream, number, {stream: output}, by=self.by)

    def call(self, line: str) -> None:
        self.out.mkdir(exist_ok=True)
        with open(self.out / "told.jsonl", "a") as file:
            file.write(line + "\n")

    def deliver(self, rows: pa.Table, epoch: int) -> None:
        folder = self.out / "clean" / f"epoch={epoch:012d}"
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "part-00000.parquet")


def windows() -> pa.Table:
    rows = []
    for second in range(THROUGH // ROWS_PER_S - 2):  # closed by a watermark a second behind the last row
        start_us = START_US + second * 1_000_000
        rows += [
            {"start": start_us, "key": key, "n": n, "total": total}
            for key, (n, total) in ORACLE.windows(start_us, THROUGH).items()
        ]
    return pa.Table.from_pylist(rows)


def play(stage: Stage, *, but: str = "", table: pa.Table | None = None) -> None:
    """A whole run. Of the stream or sink ``but``, ``table`` is published in place of what is right."""
    events = ORACLE.table(0, THROUGH)
    kept = events.filter(pc.not_equal(pc.bit_wise_and(events["value"], 0), 1))
    values = np.asarray(events["value"])
    clean = kept.filter(pa.array(values % 10 != 0)).select(["seq", "key", "value"])
    called = events.filter(pa.array(values % 50 == 1)).select(["seq", "value"])
    doubled = pa.table({"seq": called["seq"], "doubled": pc.multiply(called["value"], 2)})
    right = {"events": events, "clean": clean, "called": doubled, "gapped": events.select(["seq", "key", "value"])}
    right |= dict.fromkeys(("rolled", "passive", "active", "upstream"), windows())
    for stream, rows in right.items():
        stage.publish(stream, rows if stream != but else table, seq=THROUGH)
    stage.deliver(clean if but != "files" or table is None else table, 1)
    stage.call(f'{{"key":"k/1","rows":{clean.num_rows},"sum":{pc.sum(clean["seq"]).as_py()}}}')


def damage(stage: Stage) -> dict[str, tuple[int, int, int]]:
    """What the check says of each stream and sink that is not as it should be."""
    check = Check(stage.home, stage.out, ROWS_PER_S)
    check.finish(stage.keeper)
    assert check.missed == []
    found = {name: (tally.lost, tally.duplicated, tally.changed) for name, tally in check.tallies.items()}
    return {name: figures for name, figures in found.items() if any(figures)}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_run_that_is_right_has_no_damage_and_every_row_is_checked(stage: Stage) -> None:
    play(stage)
    check = Check(stage.home, stage.out, ROWS_PER_S)
    check.finish(stage.keeper)
    assert {name: t.to_json() for name, t in check.tallies.items() if t.lost or t.duplicated or t.changed} == {}
    assert check.tallies["events"].checked == THROUGH == check.tallies["gapped"].checked
    assert all(tally.checked > 0 for tally in check.tallies.values())


@pytest.mark.parametrize("stream", ["events", "clean", "called", "gapped", "files"])
def test_lost_doubled_and_changed_rows_are_found(stage: Stage, stream: str) -> None:
    values = np.asarray(ORACLE.table(0, THROUGH)["value"])
    chosen = {"called": values % 50 == 1, "clean": values % 10 != 0, "files": values % 10 != 0}
    right = ORACLE.table(0, THROUGH).filter(pa.array(chosen.get(stream, values >= 0)))
    right = right.select(["seq", "key", "value"])
    if stream == "called":
        right = pa.table({"seq": right["seq"], "doubled": pc.multiply(right["value"], 2)})
    last = right.column_names[-1]
    other = right.set_column(right.num_columns - 1, last, pc.add(right[last], 1))
    damaged = pa.concat_tables(
        [right.slice(2, 1), other.slice(2, 1), right.slice(3)]
    )  # two lost, one doubled, one other
    play(stage, but=stream, table=damaged)
    assert damage(stage)[stream] == (2, 1, 1)


@pytest.mark.parametrize("stream", ["rolled", "passive", "active", "upstream"])
def test_lost_doubled_and_changed_windows_are_found(stage: Stage, stream: str) -> None:
    right = windows()
    other = right.set_column(2, "n", pc.add(right["n"], 1))
    play(stage, but=stream, table=pa.concat_tables([right.slice(2, 1), other.slice(2, 1), right.slice(3)]))
    assert damage(stage) == {stream: (2, 1, 1)}


def test_what_a_gap_dropped_is_no_loss_where_it_is_on_record_and_the_stream_recovers_by_a_gap(stage: Stage) -> None:
    play(stage, but="gapped", table=ORACLE.table(0, 400).select(["seq", "key", "value"]))
    stage.publish("gapped", None, dropped=100)
    assert damage(stage) == {}
    stage.publish("rolled", None, dropped=7)
    assert damage(stage) == {"rolled": (7, 0, 0)}


def test_calls_may_repeat_but_not_differ(stage: Stage) -> None:
    play(stage)
    (line,) = (stage.out / "told.jsonl").read_text().splitlines()
    stage.call(line)
    assert damage(stage) == {}
    stage.call(line.replace('"sum":', '"sum":1'))
    assert damage(stage)["told"][2] > 0


def test_a_damaged_segment_and_a_hole_in_the_epochs_are_told(stage: Stage) -> None:
    play(stage)
    check = Check(stage.home, stage.out, ROWS_PER_S)
    (stage.home.root / "streams" / "called" / "1.parquet").write_bytes(b"x")
    check.finish(stage.keeper)
    assert len(check.missed) == 1 and "called 1" in check.missed[0]


def test_seen_remembers_each_row_once() -> None:
    seen = Seen()
    assert seen.take(np.array([1, 2, 2, 200_000])) == 1
    assert seen.take(np.array([200_000, 3])) == 1
    assert seen.count() == 4
    assert seen.missing(np.array([1, 4, 900_000])).tolist() == [4, 900_000]


def test_the_same_seed_gives_the_same_faults() -> None:
    assert deck(5, 100, postgres=True) == deck(5, 100, postgres=True) != deck(6, 100, postgres=True)
    assert steps(5, 600) == steps(5, 600)
    assert len(deck(5, 100, postgres=False)) == 100


def test_every_kind_keeps_its_share() -> None:
    weights = WEIGHTS | WEIGHTS_KEEPER
    two_rounds = deck(1, 2 * sum(weights.values()), postgres=True)
    assert Counter(fault.kind for fault in two_rounds) == {kind: 2 * weight for kind, weight in weights.items()}
    assert set(weights) <= set(KINDS)
    assert not {fault.kind for fault in deck(1, 100, postgres=False)} & set(WEIGHTS_KEEPER)


def test_flat_is_what_does_not_grow_in_the_end() -> None:
    rising_at_first = [float(min(n, 40)) + n % 3 for n in range(120)]
    assert is_flat(rising_at_first, grace=1.1, slack=0) is True
    assert is_flat([float(n) for n in range(10, 130)], grace=1.1, slack=0) is False
    assert is_flat([float(n) for n in range(10, 130)], grace=1.1, slack=1000) is True
    dying_now_and_then = [100.0 if n % 5 else 10.0 for n in range(120)]
    assert is_flat(dying_now_and_then, grace=1.1, slack=0) is True
    assert is_flat([1.0, 100.0], grace=1.1, slack=0) is None  # too few to say
