"""What a receiver got, from sinks that are killed in the middle."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.keeper.records import EpochNumber
from rekindle.sinks import Files, Foreach
from rekindle.sinks.base import Delivery, Sink, Writer
from rekindle.verify.recorder import FOLDER, Recorder, arrivals


def delivery(folder: Path, epoch: int, *values: int) -> Delivery:
    table = pa.table({"n": pa.array(values, pa.int64())})
    segment = folder / f"segment-{epoch}.parquet"
    pq.write_table(table, segment)
    return Delivery("home", "p", "s", "s", EpochNumber(epoch), len(values), table.schema, (segment,))


def got(folder: Path) -> list[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    return [(arrival.epoch, arrival.rows, arrival.gone) for arrival in arrivals(folder)]


class Cut(Exception):
    """The process dies here."""


class Appending(Sink):
    """Appends to one file; what is written in ``between`` comes first, and may fail."""

    def __init__(self, between: Callable[[Path, Delivery], None], folder: Path | None = None) -> None:
        self.between = between
        self.folder = folder

    def open(self) -> Writer:
        assert self.folder is not None, "it would write to the real place"
        sink = self

        class Appender(Writer):
            def deliver(self, delivery: Delivery) -> None:
                folder = sink.folder or Path()
                sink.between(folder, delivery)
                with open(folder / "all.json", "a") as file:
                    file.writelines(f'{{"n":{row["n"]}}}\n' for row in delivery.table().to_pylist())

        return Appender()

    @property
    def guarantee(self) -> str:
        return "at-least-once"

    def describe(self) -> str:
        return "appends"

    def redirected(self, folder: Path) -> Sink:
        return Appending(self.between, folder)


def nothing(folder: Path, delivery: Delivery) -> None:
    """Nothing happens in between."""


def test_a_sink_that_cannot_be_redirected_is_not_called_and_each_delivery_recorded(tmp_path: Path) -> None:
    called: list[str] = []
    sink = Foreach(lambda rows, key: called.append(key))
    writer = Recorder(sink, tmp_path / "s").open()
    for epoch in (1, 2, 2):
        writer.deliver(delivery(tmp_path, epoch, 10 * epoch, 11 * epoch))
    assert called == []
    one, two = (1, ('{"n":10}', '{"n":11}'), ()), (2, ('{"n":20}', '{"n":22}'), ())
    assert got(tmp_path / "s") == [one, two, two]
    Recorder(sink, tmp_path / "s", real=True).open().deliver(delivery(tmp_path, 3, 1))
    assert called == ["p/home/s/3"]


def test_files_are_delivered_for_real_and_an_epoch_that_is_recognised_does_not_come_again(tmp_path: Path) -> None:
    recorder = Recorder(Files(tmp_path / "real", format="json"), tmp_path / "s")
    assert recorder.guarantee == "precise"
    recorder.open().deliver(delivery(tmp_path, 1, 1, 2))
    recorder.open().deliver(delivery(tmp_path, 1, 1, 2))
    assert got(tmp_path / "s") == [(1, ('{"n":1}', '{"n":2}'), ())]
    assert not (tmp_path / "real").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_format_is_read(tmp_path: Path, kind: str) -> None:
    Recorder(Files("real", format=kind), tmp_path / "s").open().deliver(delivery(tmp_path, 1, 7))
    ((epoch, rows, gone),) = got(tmp_path / "s")
    assert (epoch, gone) == (1, ()) and any("7" in row for row in rows)


def test_a_sink_that_appends_again_repeats(tmp_path: Path) -> None:
    writer = Recorder(Appending(nothing), tmp_path / "s").open()
    for _ in range(2):
        writer.deliver(delivery(tmp_path, 1, 5))
    assert got(tmp_path / "s") == [(1, ('{"n":5}',), ())] * 2


def test_what_was_delivered_before_a_death_belongs_to_that_epoch(tmp_path: Path) -> None:
    def half(folder: Path, delivery: Delivery) -> None:
        if not (folder / "half.json").exists():
            (folder / "half.json").write_text('{"n":0}\n')
            raise Cut

    recorder = Recorder(Appending(half), tmp_path / "s")
    with pytest.raises(Cut):
        recorder.open().deliver(delivery(tmp_path, 4, 5))
    assert got(tmp_path / "s") == []
    recorder.open().deliver(delivery(tmp_path, 4, 5))
    recorder.open().deliver(delivery(tmp_path, 5, 6))
    assert got(tmp_path / "s") == [(4, ('{"n":0}',), ()), (4, ('{"n":5}',), ()), (5, ('{"n":6}',), ())]


def test_rows_that_are_gone_again_are_recorded(tmp_path: Path) -> None:
    def replace(folder: Path, delivery: Delivery) -> None:
        (folder / "state.json").write_text(f'{{"upto":{delivery.epoch}}}\n')

    writer = Recorder(Appending(replace), tmp_path / "s").open()
    writer.deliver(delivery(tmp_path, 1, 5))
    writer.deliver(delivery(tmp_path, 2, 6))
    assert got(tmp_path / "s")[1] == (2, ('{"n":6}', '{"upto":2}'), ('{"upto":1}',))
    os.unlink(tmp_path / "s" / FOLDER / "state.json")
    writer.deliver(delivery(tmp_path, 3, 7))
    assert got(tmp_path / "s")[2][2] == ('{"upto":2}',)


def test_nothing_delivered_is_no_arrival(tmp_path: Path) -> None:
    assert arrivals(tmp_path / "none") == []
    Recorder(Files("real"), tmp_path / "s").open()
    assert arrivals(tmp_path / "s") == []
