"""Layers: nothing needed is left out, nothing is shipped twice, and a capture is whole while files come and go."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.errors import BrokenInvariant, StateDamaged
from rekindle.keeper.records import EpochNumber
from rekindle.state import checkpoint
from rekindle.state.layers import Checksums, Entry, capture, layer_of, needed, part_of
from rekindle.streams.segments import checksum
from tests.state.paper import PaperQuery, contents


def test_a_layer_is_the_newest_snapshot_and_the_changes_after_it(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c", stores=("left", "right"), sources=2).run(10)
    layer = layer_of(query.root, EpochNumber(10), {})
    paths = {entry.path for entry in layer.needed}
    assert layer.new == layer.needed and (layer.epoch, layer.batch) == (10, 9)
    assert {p for p in paths if not p.startswith("state/")} == {
        "rekindle.json",
        "metadata",
        *("offsets/8", "offsets/9", "commits/8", "commits/9"),
        *("sources/0/9.compact", "sources/1/9.compact"),
    }
    shared = query.shared[query.root / "state/0/1/left"]
    assert {p for p in paths if p.startswith("state/0/1/left")} == {
        "state/0/1/left/8.zip",
        "state/0/1/left/9.changelog",
        "state/0/1/left/10.changelog",
        *(f"state/0/1/left/SSTs/{name}" for name in shared),
    }
    assert {"state/0/_metadata/metadata", "state/0/0/_metadata/schema"} <= paths
    assert list(layer.parts()) == ["logs", "state-0-0", "state-0-1"]
    assert [part_of(p) for p in ("state/0/_metadata/metadata", "state/3/12/left/1.zip")] == ["logs", "state-3-12"]


def test_what_is_known_is_not_new_unless_its_content_changed(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c", partitions=1, snapshot_every=100).run(3)
    first = layer_of(query.root, EpochNumber(3), {})
    known = {entry.path: entry for entry in first.needed}
    assert layer_of(query.root, EpochNumber(3), known).new == ()
    known["state/0/0/2.changelog"] = Entry("state/0/0/2.changelog", known["state/0/0/2.changelog"].bytes, "0" * 16)
    assert [e.path for e in layer_of(query.root, EpochNumber(3), known).new] == ["state/0/0/2.changelog"]
    query.run(1)
    new = {entry.path for entry in layer_of(query.root, EpochNumber(4), {e.path: e for e in first.needed}).new}
    assert new == {"offsets/3", "commits/3", "sources/0/3", "state/0/0/4.changelog"}
    with pytest.raises(BrokenInvariant, match="stands at epoch 4, not at 3"):
        layer_of(query.root, EpochNumber(3), {})


def test_a_checksum_is_computed_once_for_a_file_and_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = PaperQuery(tmp_path / "c").run(3)
    computed: list[str] = []

    def counted(path: Path) -> str:
        computed.append(path.name)
        return checksum(path)

    monkeypatch.setattr("rekindle.state.layers.checksum", counted)
    checksums = Checksums()
    capture(query.root, tmp_path / "one")
    first = layer_of(tmp_path / "one", EpochNumber(3), {}, checksums)
    assert len(computed) == len(first.needed)
    capture(query.root, tmp_path / "two")
    assert layer_of(tmp_path / "two", EpochNumber(3), {}, checksums) == first
    assert len(computed) == len(first.needed)
    changed = tmp_path / "two" / "commits" / "2"
    changed.unlink()
    changed.write_text("another")
    assert layer_of(tmp_path / "two", EpochNumber(3), {}, checksums) != first


def test_a_batch_that_is_begun_is_left_out(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c").run(3)
    committed = layer_of(query.root, EpochNumber(3), {})
    query.begin()
    assert capture(query.root, tmp_path / "captured") == checkpoint.Standing(2, EpochNumber(3))
    assert layer_of(tmp_path / "captured", EpochNumber(3), {}) == committed


def test_an_empty_checkpoint_needs_its_base(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c", base=40)
    assert capture(query.root, tmp_path / "captured").epoch == 40
    assert contents(tmp_path / "captured") == contents(query.root)


def test_files_that_spark_removes_meanwhile_do_not_hurt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query runs on and its old versions go, in the middle of the first try."""
    query = PaperQuery(tmp_path / "c").run(3)
    genuine, linked = os.link, []

    def link(origin: Path, target: Path) -> None:
        linked.append(origin)
        if len(linked) == 8:
            query.run(6)
            query.forget(8)
        genuine(origin, target)

    monkeypatch.setattr(os, "link", link)
    stand = capture(query.root, tmp_path / "captured")
    assert len(linked) > 8 and stand == checkpoint.Standing(8, EpochNumber(9))
    monkeypatch.undo()
    assert layer_of(tmp_path / "captured", EpochNumber(9), {}) == layer_of(query.root, EpochNumber(9), {})
    assert {e.path for e in layer_of(tmp_path / "captured", EpochNumber(9), {}).needed} == set(
        contents(tmp_path / "captured")
    )


@pytest.mark.parametrize(
    "path", ["offsets/4", "sources/0/2", "state/0/1/5.changelog", "state/0/0/SSTs", "metadata", "state/0/0/4.zip"]
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, path: str) -> None:
    query = PaperQuery(tmp_path / "c").run(5)
    victim = query.root / path
    if victim.is_dir():
        victim = next(victim.iterdir())
    victim.unlink()
    if path == "state/0/0/4.zip":
        assert capture(query.root, tmp_path / "captured").epoch == 5, "all the changes are there, so they do"
        victim = query.root / "state/0/0/1.changelog"
        victim.unlink()
    with pytest.raises(StateDamaged, match=victim.relative_to(query.root).as_posix()):
        capture(query.root, tmp_path / "other")


def test_partitions_of_an_earlier_partitioning_are_left_out(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c", partitions=3).run(2)
    query.partitions, query.snapshot_every = 1, 1
    query.run(1)
    assert {e.path.split("/")[2] for e in layer_of(query.root, EpochNumber(3), {}).needed if "state" in e.path} == {
        "0",
        "_metadata",
    }


def test_versions_with_ids_are_all_kept(tmp_path: Path) -> None:
    query = PaperQuery(tmp_path / "c", partitions=1, snapshot_every=2).run(2)
    for file in (query.root / "state/0/0").glob("*.*"):
        file.rename(file.with_name(f"{file.stem}_ab{file.suffix}"))
    paths = {e.path for e in layer_of(query.root, EpochNumber(2), {}).needed if e.path.startswith("state/0/0/")}
    assert paths == {p for p in contents(query.root) if p.startswith("state/0/0/")}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_shipped_layers_together_are_what_the_checkpoint_needs(data: st.DataObject) -> None:
    """Whatever is shipped when, and whatever Spark forgets: the files shipped so far make the committed prefix."""
    with tempfile.TemporaryDirectory() as folder:
        query = PaperQuery(
            Path(folder) / "c",
            partitions=data.draw(st.integers(1, 3), "partitions"),
            stores=data.draw(st.sampled_from([("",), ("left", "right")]), "stores"),
            snapshot_every=data.draw(st.integers(1, 5), "snapshot every"),
            seed=data.draw(st.integers(0, 9), "seed"),
        )
        shipped: dict[Entry, bytes] = {}
        known: dict[str, Entry] = {}
        for turn in range(data.draw(st.integers(1, 6), "turns")):
            query.run(data.draw(st.integers(1, 12), "batches"))
            if data.draw(st.booleans(), "forgets"):
                query.forget(query.batch)
            if data.draw(st.booleans(), "begun"):
                query.begin()
            captured = Path(folder) / f"t{turn}"
            stand = capture(query.root, captured)
            layer = layer_of(captured, stand.epoch, known)
            assert stand.epoch == query.epoch
            assert not shipped.keys() & set(layer.new), "nothing is shipped twice"
            assert sorted(e for part in layer.parts().values() for e in part) == sorted(layer.new)
            shipped |= {entry: (captured / entry.path).read_bytes() for entry in layer.new}
            known = {entry.path: entry for entry in layer.needed}
            assert {e.path: shipped[e] for e in layer.needed} == contents(captured)
            assert set(needed(query.root, stand)) == known.keys()
            fork = Path(folder) / f"f{turn}"
            checkpoint.fork(query.root, fork)
            whole = contents(fork)
            assert all(whole[path] == content for path, content in contents(captured).items())
