"""Everything on record as of one moment, damaged records too; and a keeper that is opened to be read."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Connection

from rekindle.errors import HomeUnusable, KeeperUnavailable
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EpochNumber, Incarnation
from tests.keeper.place import Place, damage, epochs, stream

E1 = EpochNumber(1)


@pytest.fixture
def filled(keeper: Keeper, me: Incarnation) -> Keeper:
    keeper.record_stream(stream("lines"))
    epochs(keeper, "lines", 3, me)
    keeper.record_delivery("out", "lines", E1, by=me)
    keeper.own("lines", by=me)
    stores = {"manifest": "m", "checksum": "c", "stores": ["s"], "bytes": 1}
    keeper.record_safe_point("lines", E1, batch=0, built_on=EpochNumber(0), by=me, **stores)  # type: ignore[arg-type]
    return keeper


def test_a_ledger_holds_what_the_verbs_tell(filled: Keeper, me: Incarnation) -> None:
    ledger = filled.ledger()
    assert ledger.streams == filled.streams() and ledger.owners == {"lines": me}
    assert list(ledger.members) == filled.members(live=False)
    assert list(ledger.epochs["lines"]) == filled.epochs("lines", after=0)
    assert list(ledger.claims["lines"]) == list(filled.claims("lines"))
    assert list(ledger.safe_points["lines"]) == filled.safe_points("lines")
    assert [(d.sink, d.stream, d.epoch, d.incarnation) for d in ledger.deliveries] == [("out", "lines", 1, me)]
    assert (ledger.oldest("lines"), ledger.head("lines"), ledger.head("nothing")) == (1, 3, 0)
    assert ledger.damaged == ()


def test_damaged_records_are_told_and_the_others_are_there(filled: Keeper) -> None:
    damage(filled, "UPDATE {}epochs SET rows = rows + 1 WHERE epoch = 3")
    damage(filled, "UPDATE {}claims SET spans = 'x' WHERE epoch = 2")
    damage(filled, "UPDATE {}deliveries SET epoch = -1")
    ledger = filled.ledger()
    assert {(d.table, d.subject, int(d.epoch)) for d in ledger.damaged} == {
        ("epochs", "lines", 3),
        ("claims", "lines", 2),
        ("deliveries", "out", 0),
    }
    assert all("damaged in the keeper" in d.primary and d.detail for d in ledger.damaged)
    assert [e.epoch for e in ledger.epochs["lines"]] == [1, 2] and ledger.head("lines") == 3
    assert [c.epoch for c in ledger.claims["lines"]] == [1, 3]


def test_a_snapshot_is_of_one_moment(filled: Keeper, me: Incarnation) -> None:
    """What is published between its statements is in none of them."""
    begun, published = threading.Event(), threading.Event()

    def publish() -> None:
        begun.wait()
        filled.enlist("n2", code="c2")
        published.set()

    other = threading.Thread(target=publish)
    other.start()

    def ask(connection: Connection) -> list[int]:
        def count() -> int:
            return len(filled._lives.members(connection, live=False))

        before = count()
        begun.set()
        assert published.wait(30)
        return [before, count()]

    assert filled._store.snapshot(ask) == [1, 1]
    other.join()
    assert len(filled.members()) == 2


def test_a_keeper_that_is_only_read_changes_nothing(filled: Keeper, place: Place, me: Incarnation) -> None:
    reader = open_keeper(place.url, home=place.home, patience_s=0.2, read_only=True)
    try:
        assert reader.head("lines") == 3 and reader.ledger().head("lines") == 3
        with pytest.raises(KeeperUnavailable):
            reader.event("x", "y")
        with pytest.raises(KeeperUnavailable):
            reader.leave(me)
    finally:
        reader.close()
    assert filled.events() == [] and [m.incarnation for m in filled.members()] == [me]


def test_nothing_is_made_for_one_who_reads(place: Place) -> None:
    with pytest.raises(HomeUnusable, match=r"records are gone|has no records"):
        open_keeper(place.url, home=place.home, patience_s=0.2, read_only=True)
    assert not place.home.keeper_file.exists()


def test_the_pipeline_file_is_known(keeper: Keeper) -> None:
    assert keeper.file() is None
    keeper.record_file("/a/b.py", "c1")
    keeper.record_file("/a/c.py", "c2")
    assert keeper.file() == ("/a/c.py", "c2")
