"""Claims of files: which, when, in which order, and what happens if they are not what they were."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StructType

from rekindle.errors import BrokenInvariant, SourceError
from rekindle.keeper.records import Span
from rekindle.sources import Files, files_text
from rekindle.sources import files as rooms
from rekindle.sources.base import Batch, Reader
from tests.sources.collect import Collected

NOW_S = 1_750_000_000.0
SCHEMA = StructType().add("a", IntegerType())  # unlike DDL, this needs no JVM


class Clock:
    """Moves on a little whenever it is read."""

    def __init__(self, now_s: float = NOW_S, step_s: float = 0.01) -> None:
        self.now_s = now_s
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def put(folder: Path, name: str, mtime_s: float = NOW_S - 100, content: bytes = b"{}\n") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (mtime_s, mtime_s))


def source(folder: Path, clock: Clock | None = None, **options: Any) -> Files:
    return Files(folder, format="json", schema=SCHEMA, clock=clock or Clock(), **options)


def names(position: Any) -> list[str]:
    return [] if position is None else [f[0] for f in position["files"]]


def all_names(reader: Reader, rows_max: int = 1_000_000, after: Any = None) -> list[str]:
    found = []
    while (position := reader.newest(after, rows_max)) is not None:
        found += names(position)
        after = position
    return found


def test_files_come_by_time_and_then_by_name(tmp_path: Path) -> None:
    put(tmp_path, "b", NOW_S - 50)
    put(tmp_path, "c", NOW_S - 60)
    put(tmp_path, "a", NOW_S - 50)
    assert all_names(source(tmp_path).open([])) == ["c", "a", "b"]


def test_hidden_temporary_and_other_names_are_not_taken(tmp_path: Path) -> None:
    for name in (".a.json", "_a.json", "a.json.tmp", "a.json._COPYING_", "a.crdownload", "a.part", "a.csv", "a.json"):
        put(tmp_path, name)
    put(tmp_path, "sub/b.json")
    put(tmp_path, "_sub/c.json")
    os.mkfifo(tmp_path / "fifo.json")
    assert all_names(source(tmp_path, pattern="*.json").open([])) == ["a.json"]
    assert all_names(source(tmp_path, pattern="*.json", recursive=True).open([])) == ["a.json", "sub/b.json"]


def test_a_file_that_still_changes_is_left_alone_until_it_has_settled(tmp_path: Path) -> None:
    clock = Clock(step_s=0)
    reader = source(tmp_path, clock, settle_s=1.0).open([])
    put(tmp_path, "a", NOW_S - 0.5)
    assert reader.newest(None, 10) is None
    clock.now_s += 0.4
    assert reader.newest(None, 10) is None
    clock.now_s += 0.2
    assert names(reader.newest(None, 10)) == ["a"]


def test_a_time_in_the_future_settles_by_standing_still(tmp_path: Path) -> None:
    clock = Clock(step_s=0)
    reader = source(tmp_path, clock, settle_s=1.0).open([])
    put(tmp_path, "a", NOW_S + 5000)
    assert reader.newest(None, 10) is None
    clock.now_s += 0.6
    put(tmp_path, "a", NOW_S + 5000, b"{}\n{}\n")  # it grew: the wait starts anew
    assert reader.newest(None, 10) is None
    clock.now_s += 0.6
    assert reader.newest(None, 10) is None
    clock.now_s += 0.6
    assert names(reader.newest(None, 10)) == ["a"]


def test_links_inside_are_read_and_links_out_are_rejected(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b'{"a": 666}\n')
    folder = tmp_path / "in"
    put(folder, "real/r.json")
    (folder / "out.json").symlink_to(secret)
    (folder / "outdir").symlink_to(tmp_path)
    (folder / "dangling.json").symlink_to(folder / "nothing")
    (folder / "in.json").symlink_to(folder / "real" / "r.json")
    reader = source(folder, Clock(time.time() + 10)).open([])
    position = reader.newest(None, 100)
    assert sorted(names(position)) == ["in.json", "out.json", "outdir"]
    out: Any = {"count": 2, "files": [f for f in (position or {})["files"] if f[0] != "in.json"]}
    batch = Collected()
    declared = source(folder)
    declared.schema(None)  # type: ignore[arg-type]
    declared.open([]).read(Span(None, out), batch)
    assert sorted(batch.rejects) == [(n, "the link leads out of the folder", None) for n in ("out.json", "outdir")]
    assert batch.tables == []


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret"])
def test_a_claim_with_a_name_that_leaves_the_folder_reads_nothing(tmp_path: Path, name: str) -> None:
    put(tmp_path, "secret")
    put(tmp_path, "in/a/x")
    stat = os.stat(tmp_path / "in" / name)
    batch = Collected()
    declared = source(tmp_path / "in")
    declared.schema(None)  # type: ignore[arg-type]
    position = {"count": 1, "files": [[name, stat.st_size, stat.st_mtime_ns]]}
    declared.open([]).read(Span(None, position), batch)
    assert [o for o, _, _ in batch.rejects] == [name]
    assert batch.calls == ["reject"]


def claimed(tmp_path: Path) -> tuple[Files, Any]:
    put(tmp_path, "a", content=b'{"a": 1}\n')
    declared = source(tmp_path)
    declared.schema(None)  # type: ignore[arg-type]
    return declared, declared.open([]).newest(None, 10)


def test_a_claimed_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    declared, position = claimed(tmp_path)
    (tmp_path / "a").unlink()
    batch = Collected()
    with pytest.raises(SourceError, match="'a' is gone") as caught:
        declared.open([position]).read(Span(None, position), batch)
    assert "files 1 to 1" in caught.value.detail
    assert "put it back" in caught.value.hint
    assert batch.calls == []


@pytest.mark.parametrize("change", ["size", "time", "folder"])
def test_a_claimed_file_that_was_changed_is_an_error(tmp_path: Path, change: str) -> None:
    declared, position = claimed(tmp_path)
    if change == "folder":
        (tmp_path / "a").unlink()
        (tmp_path / "a").mkdir()
    else:
        later = NOW_S - (99 if change == "time" else 100)
        put(tmp_path, "a", later, b'{"a": 2}\n' if change == "time" else b'{"a": 22}\n')
    batch = Collected()
    with pytest.raises(SourceError, match=r"'a' (was changed|is gone)"):
        declared.open([position]).read(Span(None, position), batch)
    assert batch.calls == []


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, position = claimed(tmp_path)

    def overtaken(*_: object) -> None:
        put(tmp_path, "a", NOW_S)

    monkeypatch.setattr(files_text, "bring", overtaken)
    with pytest.raises(SourceError, match="was changed"):
        declared.open([position]).read(Span(None, position), Collected())


def test_a_taken_name_is_never_taken_again(tmp_path: Path) -> None:
    _, position = claimed(tmp_path)
    put(tmp_path, "a", NOW_S - 1, b"other")
    assert source(tmp_path).open([position]).newest(position, 10) is None


def test_a_file_that_changes_or_goes_while_it_waits_its_turn_is_not_claimed_as_it_was(tmp_path: Path) -> None:
    for index, name in enumerate("abc"):
        put(tmp_path, name, NOW_S - 100 + index)
    reader = source(tmp_path).open([])
    first = reader.newest(None, 1)
    assert names(first) == ["a"]
    put(tmp_path, "b", NOW_S - 90, b"{}\n{}\n{}\n")
    (tmp_path / "c").unlink()
    second = reader.newest(first, 1) or reader.newest(first, 1)  # the change costs one look
    assert second == {"count": 2, "files": [["b", 9, (tmp_path / "b").stat().st_mtime_ns]]}
    assert reader.newest(second, 1) is None


def test_a_missing_folder_is_an_error_at_open_and_later(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not there"):
        source(tmp_path / "in").open([])
    (tmp_path / "in").mkdir()
    reader = source(tmp_path / "in").open([])
    (tmp_path / "in").rmdir()
    with pytest.raises(SourceError, match="cannot be read"):
        reader.newest(None, 10)


def test_a_name_that_is_not_utf8_is_an_error_that_names_it(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff")).write_bytes(b"{}")
    with pytest.raises(SourceError, match="not UTF-8"):
        source(tmp_path).open([]).newest(None, 10)


def test_a_missed_or_broken_chain_of_claims_is_damage(tmp_path: Path) -> None:
    reader = source(tmp_path).open([])
    with pytest.raises(BrokenInvariant, match="missed a claim"):
        reader.newest({"count": 5, "files": [["x", 1, 1]]}, 10)
    with pytest.raises(BrokenInvariant, match="does not follow"):
        reader.read(Span({"count": 1, "files": []}, {"count": 5, "files": [["x", 1, 1]]}), Collected())


def test_a_listing_stats_only_new_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(200):
        put(tmp_path, f"{index:03}")
    reader = source(tmp_path).open([])
    position = reader.newest(None, 1_000_000)
    asked: list[str] = []
    real = rooms.signature

    def signature(folder: Path, name: str) -> rooms.Claimed | None:
        asked.append(name)
        return real(folder, name)

    monkeypatch.setattr(rooms, "signature", signature)
    put(tmp_path, "new")
    assert names(reader.newest(position, 10)) == ["new"]
    assert set(asked) == {"new"}


def test_an_idle_folder_is_not_listed_at_every_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    os.utime(tmp_path, (NOW_S - 50, NOW_S - 50))
    clock = Clock(step_s=0)
    reader = source(tmp_path, clock).open([])
    position = reader.newest(None, 10)
    listed: list[Path] = []
    real = rooms.walk

    def walk(folder: Path, pattern: str, recursive: bool, seen: set[str]) -> Iterator[rooms.Claimed]:
        listed.append(folder)
        return real(folder, pattern, recursive, seen)

    monkeypatch.setattr(rooms, "walk", walk)
    for _ in range(10):
        assert reader.newest(position, 10) is None
    assert len(listed) == 0
    clock.now_s += 1.5
    assert reader.newest(position, 10) is None
    assert len(listed) == 1  # now and then it is, whatever the folder's time says
    put(tmp_path, "b")
    assert names(reader.newest(position, 10)) == ["b"]


class Lines(Files):
    """Reads its files without Spark, so that claims can be tried by the thousand."""

    def open(self, history: Any) -> rooms.FilesReader:
        return LinesReader(self, self._folder(), history, self._clock)


class LinesReader(rooms.FilesReader):
    def read(self, span: Span, batch: Batch) -> None:
        files = [rooms.Claimed(*f) for f in span.through["files"]]
        self._check(files, span)
        for file in files:
            batch.reject(origin=file.name, reason="", row=(self.folder / file.name).read_text())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 30), st.integers(-3, 3)),
        st.tuples(st.just("claim"), st.integers(1, 5), st.booleans()),
        st.tuples(st.just("restart"), st.just(0), st.booleans()),
        st.tuples(st.just("rival"), st.integers(1, 5), st.booleans()),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps=STEPS)
def test_no_file_is_lost_or_doubled_however_arrivals_and_claims_interleave(
    steps: list[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two replicas propose; the keeper takes one proposal, the other adopts it; both may start anew."""
    folder = tmp_path_factory.mktemp("in")
    clock = Clock(step_s=0.3)
    declared = Lines(folder, format="json", schema=SCHEMA, clock=clock, settle_s=0.2)
    claims: list[Any] = []
    put_in: set[str] = set()
    reader, rival = declared.open([]), declared.open([])

    def claim(by: Reader, rows_max: int) -> bool:
        after = claims[-1] if claims else None
        proposal = by.newest(after, rows_max)
        if proposal is None:
            return False
        assert json.loads(json.dumps(proposal)) == proposal
        assert 1 <= len(names(proposal)) <= rows_max
        assert proposal["count"] == (after["count"] if after else 0) + len(names(proposal))
        claims.append(json.loads(json.dumps(proposal)))
        reader.newest(claims[-1], 1)
        rival.newest(claims[-1], 1)
        return True

    for step, number, more in steps:
        if step == "arrive" and f"f{number}" not in put_in:
            put_in.add(f"f{number}")
            put(folder, f"f{number}", clock.now_s + int(more), b"x\n")
        elif step == "claim":
            claim(reader, number)
        elif step == "rival":
            claim(rival, number)
        elif step == "restart":
            reader = declared.open(iter(claims))
    clock.now_s += 100
    idle = 0
    while idle < 3:  # a time in the future needs two looks
        idle = 0 if claim(reader, 3) else idle + 1

    claimed_names = [n for position in claims for n in names(position)]
    assert sorted(claimed_names) == sorted(put_in)
    again = []
    for opened in (reader, declared.open(claims)):
        brought = Collected()
        for index, position in enumerate(claims):
            opened.read(Span(claims[index - 1] if index else None, position), brought)
        again.append(brought.rejects)
    assert again[0] == again[1] == [(n, "", "x\n") for n in claimed_names]
