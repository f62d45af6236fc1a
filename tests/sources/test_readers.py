"""What every reader must do, whatever it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.keeper.records import Span
from rekindle.sources import Files, Rate
from rekindle.sources.base import Source
from tests.sources.collect import Collected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROWS = 10
NOW_S = 1_750_000_000.0


@dataclass
class World:
    """A source, and a way to make ``ROWS`` more rows appear in it."""

    source: Source
    more: Callable[[], None]


@dataclass
class Clock:
    now_s: float = NOW_S

    def __call__(self) -> float:
        return self.now_s


def rate(folder: Path) -> World:
    clock = Clock()

    def more() -> None:
        clock.now_s += 1

    return World(Rate(ROWS, start=NOW_S, late_s=3, clock=clock), more)


def files(format: str) -> Callable[[Path], World]:
    def world(folder: Path) -> World:
        put = 0

        def more() -> None:
            nonlocal put
            rows = range(put * ROWS, (put + 1) * ROWS)
            path = folder / f"{put:03}.{format}"
            if format == "parquet":
                # every second file has to be rewritten
                pq.write_table(pa.table({"a": pa.array(rows, pa.int64() if put % 2 else pa.int16())}), path)
            else:
                line = '{{"a": {}}}\n' if format == "json" else "{}\n"
                path.write_text("".join(line.format(i) for i in rows) + "malformed\n")
            put += 1

        return World(Files(folder, format=format, schema="a long", settle_s=0), more)

    return world


WORLDS = {"rate": rate, "parquet": files("parquet"), "json": files("json"), "csv": files("csv")}


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> World:
    made: World = WORLDS[request.param](tmp_path)
    made.source.schema(spark)
    return made


def rows_in(position: Any) -> int:
    return int(position["seq"] if "seq" in position else position["count"] * ROWS)


def test_claims_chain_stay_bounded_and_read_the_same_after_a_fresh_open(world: World, spark: SparkSession) -> None:
    claims: list[Any] = []
    reader = world.source.open([])
    assert reader.newest(None, 100) is None
    for turn in range(4):
        for _ in range(turn + 1):
            world.more()
        while True:
            after = claims[-1] if claims else None
            position = reader.newest(after, 2 * ROWS)
            if position is None:
                break
            assert json.loads(json.dumps(position)) == position
            assert 0 < rows_in(position) - (rows_in(after) if after else 0) <= 2 * ROWS
            claims.append(position)
        assert reader.newest(claims[-1], 2 * ROWS) is None
        if turn == 1:
            reader = world.source.open(iter(claims))
    assert rows_in(claims[-1]) == 10 * ROWS

    once, again = [], []
    spans = [Span(claims[i - 1] if i else None, position) for i, position in enumerate(claims)]
    for span in spans:
        batch = Collected(spark)
        reader.read(span, batch)
        once.append((batch.rows(), batch.rejects))
    for index in (len(spans) - 1, 0, 2):  # in any order, each by a reader that was just opened
        recorded = Span.from_json(json.loads(json.dumps(spans[index].to_json())))
        batch = Collected(spark)
        world.source.open(json.loads(json.dumps(claims))).read(recorded, batch)
        again.append((index, batch.rows(), batch.rejects))
    for index, rows, rejects in again:
        assert (rows, rejects) == once[index]

    name = "seq" if "seq" in once[0][0][0] else "a"
    assert [row[name] for rows, _ in once for row in rows] == list(range(10 * ROWS))
    rejects = [r for _, rejected in once for r in rejected]
    assert len(rejects) == (10 if getattr(world.source, "format", "") in ("json", "csv") else 0)


def test_a_proposal_that_was_not_taken_is_made_again(world: World) -> None:
    world.more()
    reader = world.source.open([])
    first = reader.newest(None, ROWS)
    assert first == reader.newest(None, ROWS)
    world.more()
    assert reader.newest(None, ROWS) == first
    assert reader.newest(first, ROWS) is not None
