"""JSON lines and CSV: every line is a row or a reject."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rekindle.errors import DeclarationError, SourceError
from rekindle.keeper.records import Span
from rekindle.sources import Files
from tests.sources.collect import Collected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Bring = Callable[..., Collected]


@pytest.fixture
def bring(spark: SparkSession, tmp_path: Path) -> Bring:
    """Put files into a folder, claim them all, read the claim."""

    def run(files: dict[str, bytes], **declared: Any) -> Collected:
        folder = tmp_path / "in"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        source = Files(folder, settle_s=0, recursive=True, **declared)
        source.schema(spark)
        reader = source.open([])
        through = reader.newest(None, 1_000_000)
        assert through is not None and len(through["files"]) == len(files)
        batch = Collected(spark)
        reader.read(Span(None, through), batch)
        return batch

    return run


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [("json", b'{"raw": 1, "file": 2, "reason": 3, "value": 4}', b"{"), ("csv", b"1,2,3,4", b"1,x,3,4")],
)
def test_columns_may_have_any_name(bring: Bring, format: str, good: bytes, bad: bytes) -> None:
    schema = "raw long, file long, reason long, value long"
    batch = bring({"a": good + b"\n" + bad + b"\n"}, format=format, schema=schema)
    assert batch.rows() == [{"raw": 1, "file": 2, "reason": 3, "value": 4}]
    assert [(origin, row) for origin, _, row in batch.rejects] == [("a", bad.decode())]


def test_json_rows_come_in_order_with_their_types(bring: Bring) -> None:
    lines = b"".join(b'{"id": %d, "n": {"at": "2026-01-02T03:04:05Z"}, "l": [1, 2]}\n' % i for i in range(5000))
    batch = bring({"a.json": lines}, format="json", schema="id long, n struct<at: timestamp>, l array<int>")
    assert [r["id"] for r in batch.rows()] == list(range(5000))
    assert batch.rows()[0]["n"]["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert batch.calls == ["add_frame"]  # nothing is malformed: one pass


BAD_JSON = [
    (b"garbage", "not a JSON object"),
    (b"null", "not a JSON object"),
    (b"[]", "not a JSON object"),
    (b'[{"a": 1}]', "not a JSON object"),
    (b"17", "not a JSON object"),
    (b'{"a": "seven"}', "malformed JSON"),
    (b'{"a": 99999999999}', "malformed JSON"),
    (b'{"a": 7', "malformed JSON"),
    (b'{"a": 7} trailing', "malformed JSON"),
    (b'{"a": 7}{"a": 8}', "malformed JSON"),
    (b'{"a": 7},{"a": 8}', "more than one JSON object"),
    (b'{"a": 7},"x":{"a": 8}', "malformed JSON"),
    (b'{"a": 7, "s": "\xff\xfe"}', "not UTF-8"),
    (b"\x89PNG\x1a\x00\x00\xff", "not UTF-8"),
]


def test_malformed_json_lines_are_rejected_with_reason_origin_and_raw_row(bring: Bring) -> None:
    good = [b'{"a": 1, "s": "caf\xc3\xa9"}', b'{"a": 2, "unknown": [{}, {}]}', b"{}"]
    lines = [good[0], b"", b"   \t", *(line for line, _ in BAD_JSON), good[1], good[2]]
    name = "sub/a b+c%20[1]{x}ü.json"
    batch = bring({name: b"\n".join(lines)}, format="json", schema="a int, s string")
    assert [(r["a"], r["s"]) for r in batch.rows()] == [(1, "café"), (2, None), (None, None)]
    assert len(batch.rejects) == len(BAD_JSON)
    for (origin, reason, row), (line, wanted) in zip(batch.rejects, BAD_JSON, strict=True):
        assert origin == name
        assert reason.startswith(wanted), (line, reason)
        assert row == line.decode(errors="replace"), line
    assert batch.calls == ["add_frame", "reject_frame"]


def test_malformed_csv_rows_are_rejected_with_reason_origin_and_raw_row(bring: Bring) -> None:
    options = {"header": True, "escape": '"'}
    content = b'a,b\n1,x\n2\n3,y,z\nq,w\n\n5,"a, ""b"""\n99999999999,v\n7,\xc3\xa9\n'
    batch = bring({"c+1.csv": content}, format="csv", schema="a int, b string", options=options)
    assert [(r["a"], r["b"]) for r in batch.rows()] == [(1, "x"), (5, 'a, "b"'), (7, "é")]
    assert [(o, r) for o, _, r in batch.rejects] == [("c+1.csv", r) for r in ("2", "3,y,z", "q,w", "99999999999,v")]
    assert all("field" in reason for _, reason, _ in batch.rejects)


def test_a_malformed_field_of_any_column_rejects_the_row_although_the_others_fit(bring: Bring) -> None:
    batch = bring({"a.csv": b"1,2,3\n1,2,x\nx,2,3\n"}, format="csv", schema="a int, b int, c int")
    assert len(batch.rows()) == 1
    assert [row for _, _, row in batch.rejects] == ["1,2,x", "x,2,3"]


def test_csv_with_newlines_in_quotes(bring: Bring) -> None:
    options = {"header": True, "multiLine": True, "sep": ";"}
    content = b'a;b\n1;"two\nlines"\nx;y\n'
    batch = bring({"a.csv": content}, format="csv", schema="a int, b string", options=options)
    assert [(r["a"], r["b"]) for r in batch.rows()] == [(1, "two\nlines")]
    assert len(batch.rejects) == 1


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        (b"a,b\n1,\xe9\n", {}, "not utf-8"),
        (b"a,b\n1,x\x00y\n", {}, "zero bytes"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), {}, "not utf-8"),
        (b"b,a\n1,x\n", {"header": "true"}, "the header is b, a"),
        (b"1,x\n" + b"," * 30_000 + b"\n", {}, "fields"),
    ],
)
def test_a_csv_file_that_spark_would_fail_on_or_misread_is_rejected_whole(
    bring: Bring, content: bytes, options: dict[str, str], reason: str
) -> None:
    files = {"bad.csv": content, "good.csv": b"a,b\n7,z\n"}
    batch = bring(files, format="csv", schema="a string, b string", options=options)
    assert batch.rows()[-1] == {"a": "7", "b": "z"}
    [(origin, why, row)] = batch.rejects
    assert origin == "bad.csv" and reason in why and row is None


def test_another_encoding_is_read_as_declared(bring: Bring) -> None:
    content = "1,é\n".encode("latin-1")
    batch = bring({"a.csv": content}, format="csv", schema="a int, b string", options={"encoding": "ISO-8859-1"})
    assert batch.rows() == [{"a": 1, "b": "é"}]


def test_compressed_files_are_read_and_broken_ones_rejected(bring: Bring) -> None:
    line = b'{"a": 1}\n'
    files = {
        "1.json.gz": gzip.compress(line),
        "2.json.gz": gzip.compress(line * 1000)[:-9],
        "3.json.gz": b"no gzip",
        "4.json.bz2": bz2.compress(line),
        "5.json.zst": b"whatever",
        "6:7.json": line,
    }
    batch = bring(files, format="json", schema="a int")
    assert batch.rows() == [{"a": 1}] * 2
    assert sorted(o for o, _, _ in batch.rejects) == ["2.json.gz", "3.json.gz", "5.json.zst", "6:7.json"]


def test_empty_and_blank_files_are_no_rows(bring: Bring) -> None:
    for format in ("json", "csv"):
        batch = bring(
            {f"1.{format}": b"", f"2.{format}": b"\n\n"}, format=format, schema="a int", pattern=f"*.{format}"
        )
        assert batch.rows() == [] and batch.rejects == []


def test_the_same_lines_in_the_same_order_every_time(bring: Bring) -> None:
    files = {f"{i:02}.json": b"".join(b'{"f": %d, "i": %d}\n' % (i, k) for k in range(50 + i)) for i in range(40)}
    first, second = (bring(files, format="json", schema="f int, i int").rows() for _ in range(2))
    assert first == second
    assert len(first) == sum(50 + i for i in range(40))
    for i in range(40):
        assert [r["i"] for r in first if r["f"] == i] == list(range(50 + i))


def test_the_settings_of_the_nodes_session_hold(spark: SparkSession, tmp_path: Path) -> None:
    node = spark.newSession()
    node.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    (tmp_path / "a.json").write_text('{"t": "2026-01-02 09:00:00"}')
    source = Files(tmp_path, format="json", schema="t timestamp", settle_s=0)
    source.schema(node)
    reader = source.open([])
    batch = Collected(node)
    reader.read(Span(None, reader.newest(None, 1)), batch)
    assert batch.rows()[0]["t"].isoformat() == "2026-01-02T00:00:00+00:00"


def test_options_are_checked_when_declared() -> None:
    with pytest.raises(DeclarationError, match="did you mean 'header'"):
        Files("in", format="csv", schema="a int", options={"headre": True})
    for option in ("mode", "multiLine", "columnNameOfCorruptRecord"):
        with pytest.raises(DeclarationError, match="no option"):
            Files("in", format="json", schema="a int", options={option: "x"})
    with pytest.raises(DeclarationError, match="encoding"):
        Files("in", format="csv", schema="a int", options={"encoding": "klingon"})
    with pytest.raises(DeclarationError, match="need a schema"):
        Files("in", format="json")
    with pytest.raises(DeclarationError, match="did you mean 'parquet'"):
        Files("in", format="parket")
    with pytest.raises(DeclarationError, match="not a folder"):
        Files("s3://bucket/in")


def test_schemas_are_checked_before_reading(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be array<int> in CSV"):
        Files(tmp_path, format="csv", schema="a array<int>").schema(spark)
    with pytest.raises(SourceError, match="cannot be understood"):
        Files(tmp_path, format="json", schema="a imt").schema(spark)
    schema = Files(tmp_path, format="json", schema="a int not null, b struct<c: int not null>").schema(spark)
    assert "false" not in json.dumps(schema.jsonValue())
