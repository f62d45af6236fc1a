from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

from rekindle.errors import HomeUnusable, SegmentDamaged
from rekindle.home import Home, create_or_open
from rekindle.keeper.records import Epoch, EpochNumber, Incarnation, Output, Segment
from rekindle.streams.segments import checksum, read_batches, read_table, verify


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_or_open(tmp_path / "home", "words", None)


def segment(home: Home, name: str, *values: int) -> Segment:
    path = home.streams / name
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), path)
    return Segment(f"streams/{name}", len(values), path.stat().st_size, checksum(path))


def epoch(number: int, *segments: Segment) -> Epoch:
    rows, size = sum(s.rows for s in segments), sum(s.bytes for s in segments)
    output = Output(segments, rows, size, "0:0:0")
    return Epoch("numbers", EpochNumber(number), "numbers", output, Incarnation(1), 0.0)


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_checksum_is_xxh3_of_the_whole_file(tmp_path: Path, size: int) -> None:
    content = bytes(i % 251 for i in range(size))
    (tmp_path / "file").write_bytes(content)
    assert checksum(tmp_path / "file") == xxhash.xxh3_64_hexdigest(content)


def test_rows_come_in_canonical_order(home: Home) -> None:
    epochs = [
        epoch(1, segment(home, "a", 5, 4), segment(home, "b", 3)),
        epoch(2),
        epoch(3, segment(home, "c"), segment(home, "d", 1)),
    ]
    assert read_table(home, epochs)["n"].to_pylist() == [5, 4, 3, 1]


def test_nothing_is_an_empty_table(home: Home) -> None:
    assert read_table(home, [epoch(1)]).num_rows == 0
    assert list(read_batches(home, [])) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [({"bytes": 1}, "bytes"), ({"checksum": "0" * 16}, "checksum"), ({"path": "streams/none"}, "missing")],
)
def test_what_is_not_as_published_is_damaged(home: Home, change: dict[str, object], says: str) -> None:
    wrong = dataclasses.replace(segment(home, "a", 1), **change)  # type: ignore[arg-type]
    with pytest.raises(SegmentDamaged, match="epoch 7 of stream 'numbers'") as damaged:
        verify(home, wrong, stream="numbers", epoch=7)
    assert says in damaged.value.primary
    assert damaged.value.detail == str(home.root / wrong.path)


def test_a_wrong_row_count_is_damage_too(home: Home) -> None:
    wrong = dataclasses.replace(segment(home, "a", 1, 2), rows=3)
    with pytest.raises(SegmentDamaged, match="has 2 rows, published were 3"):
        read_table(home, [epoch(1, wrong)])


def test_what_was_never_parquet_is_damaged(home: Home) -> None:
    path = home.streams / "text"
    path.write_text("not parquet")
    wrong = Segment("streams/text", 1, path.stat().st_size, checksum(path))
    with pytest.raises(SegmentDamaged, match="as Parquet"):
        read_table(home, [epoch(1, wrong)])


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "streams/../../secret"])
def test_no_path_leads_out_of_the_home(home: Home, path: str) -> None:
    with pytest.raises(HomeUnusable, match="leads out of the home"):
        verify(home, Segment(path, 1, 1, "0"), stream="numbers", epoch=1)
