"""Homes made with the real keeper, and the command line called as a user calls it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rekindle.cli.main import app
from rekindle.home import Home, create_or_open
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import Epoch, EpochNumber, Incarnation, Output, Segment, Span, StreamRecord
from rekindle.streams.segments import checksum


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Rekindle = Callable[..., Answer]


@pytest.fixture
def rekindle(monkeypatch: pytest.MonkeyPatch) -> Rekindle:
    for name in ("REKINDLE_HOME", "REKINDLE_KEEPER"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: object) -> Answer:
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return call


class Ward:
    """A home, its keeper, and a node that can publish on it."""

    def __init__(self, root: Path) -> None:
        self.home: Home = create_or_open(root, "words", None)
        self.ticks = itertools.count(1_700_000_000)
        self.keeper: Keeper = open_keeper(None, home=self.home, clock=lambda: float(next(self.ticks)), patience_s=5.0)
        self.node: Incarnation = self.keeper.enlist("main", code="c0de")

    def stream(self, name: str, *inputs: str, fragment: str | None = None) -> None:
        self.keeper.record_stream(StreamRecord(name, fragment or name, "{}", inputs, "precise"))

    def publish(self, stream: str, *tables: pa.Table) -> Epoch:
        """The next epoch of a stream that is fed from outside, one segment for each table."""
        number = EpochNumber(self.keeper.head(stream) + 1)
        before = None if number == 1 else number - 1
        self.keeper.claim(stream, number, {"outside": Span(before, int(number))}, by=self.node)
        segments = tuple(self.segment(stream, number, i, table) for i, table in enumerate(tables))
        size = sum(segment.bytes for segment in segments)
        rows = sum(segment.rows for segment in segments)
        output = Output(segments, rows, size, f"{rows}:0:0")
        return self.keeper.publish(stream, number, {stream: output}, by=self.node).epochs[stream]

    def segment(self, stream: str, epoch: int, index: int, table: pa.Table) -> Segment:
        path = self.home.streams / stream / f"{epoch:012d}-{self.node}-1" / f"{epoch:012d}-{index:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        relative = str(path.relative_to(self.home.root))
        return Segment(relative, table.num_rows, path.stat().st_size, checksum(path))


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    made = Ward(tmp_path / "home")
    yield made
    made.keeper.close()


def words(*values: str) -> pa.Table:
    return pa.table({"word": pa.array(values, pa.string()), "length": pa.array([len(v) for v in values], pa.int64())})
