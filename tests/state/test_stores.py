"""Stores: what every kind must do, on a directory and on fsspec's memory; and what is only true of some."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.errors import DeclarationError, StateDamaged
from rekindle.home import create_or_open
from rekindle.state.stores import Store, StoreFailed, open_stores


@pytest.fixture(params=["directory", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = {"directory": str(tmp_path / "s"), "file": f"file://{tmp_path}/s", "memory": f"memory://{tmp_path.name}"}
    store = Store(url[request.param], "p-1")
    store.prepare()
    yield store
    store.remove(list(store.sizes("f")))


def test_what_is_put_is_there_whole(store: Store) -> None:
    store.put("f/1/a", [b"one", b"two"], 6)
    store.put("f/1/b", [], 0)
    store.settle("f/1")
    assert b"".join(store.read("f/1/a")) == b"onetwo"
    assert list(store.read("f/1/a", [(1, 3), (5, 9)])) == [b"net", b"o"]
    assert store.sizes("f") == {"f/1/a": 6, "f/1/b": 0} and store.sizes("none") == {}
    assert (store.size("f/1/a"), store.size("f/1/c")) == (6, None)
    store.put("f/1/a", [b"other"], 5)
    assert b"".join(store.read("f/1/a")) == b"other"


def test_what_is_removed_is_gone_and_may_be_gone_already(store: Store) -> None:
    store.put("f/1/a", [b"x"], 1)
    store.put("f/2/a", [b"x"], 1)
    store.remove(["f/1/a", "f/1/never"])
    assert store.sizes("f") == {"f/2/a": 1}


def test_what_is_not_there_cannot_be_read(store: Store) -> None:
    with pytest.raises(StoreFailed, match="FileNotFoundError"):
        next(store.read("f/1/a"))


def test_a_write_that_breaks_off_leaves_nothing_and_is_not_the_stores_fault(store: Store) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"half"
        raise StateDamaged("the file changed")

    with pytest.raises(StateDamaged):
        store.put("f/1/a", chunks(), 8)
    assert store.sizes("f") == {}


def test_a_size_that_is_not_what_was_written_is_refused(store: Store) -> None:
    with pytest.raises(StoreFailed, match="has 4 bytes after 8 were written"):
        store.put("f/1/a", [b"half"], 8)


def test_a_folder_that_is_not_there_is_not_made_by_a_write(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "mount"), "p-1")
    with pytest.raises(StoreFailed, match="is not there"):
        store.put("f/1/a", [b"x"], 1)
    assert not (tmp_path / "mount").exists()


def test_two_homes_share_a_place_and_never_an_object(tmp_path: Path) -> None:
    one, other = Store(str(tmp_path), "p-1"), Store(str(tmp_path), "p-2")
    for store in (one, other):
        store.prepare()
    one.put("f/1/a", [b"x"], 1)
    assert other.sizes("f") == {} and other.size("f/1/a") is None


def test_a_home_opens_its_stores_by_url(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "sums", None)
    directory, memory = open_stores([str(tmp_path / "s"), "memory://u:secret@x"], home)
    directory.prepare()
    assert (tmp_path / "s" / f"sums-{home.id}").is_dir() and "secret" not in memory.name
    with pytest.raises(DeclarationError, match="cannot be used") as refused:
        open_stores(["nonsense://x"], home)
    assert "nonsense" in str(refused.value)
    with pytest.raises(DeclarationError, match="named twice"):
        open_stores([str(tmp_path / "s")] * 2, home)
