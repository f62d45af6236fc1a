"""Records that were damaged in the database are named, never believed."""

from __future__ import annotations

import re

import pytest

from rekindle.errors import BrokenInvariant
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber
from tests.keeper.place import Place, damage, epochs, stream


def read_everything(keeper: Keeper) -> None:
    list(keeper.claims("lines"))
    keeper.head("lines")
    keeper.epochs("lines", after=-10)
    keeper.members(live=False)
    keeper.streams()
    keeper.delivered("s")
    keeper.failures()
    keeper.events()


@pytest.fixture
def full(keeper: Keeper) -> Keeper:
    me = keeper.enlist("n1", code="c")
    keeper.record_stream(stream("lines"))
    epochs(keeper, "lines", 3, me)
    keeper.record_delivery("s", "lines", EpochNumber(1), by=me)
    keeper.record_failure("f", EpochNumber(1), reason="r", traceback="t", by=me)
    keeper.event("k", "s", a=1)
    read_everything(keeper)
    return keeper


@pytest.mark.parametrize(
    ("change", "record"),
    [
        ("claims SET spans = '{' WHERE epoch = 2", "the claim of epoch 2 of fragment 'lines'"),
        ("claims SET spans = '[]' WHERE epoch = 2", "the claim of epoch 2 of fragment 'lines'"),
        ("claims SET spans = '{\"a\":1}' WHERE epoch = 2", "the claim of epoch 2 of fragment 'lines'"),
        ("claims SET incarnation = 0 WHERE epoch = 3", "the claim of epoch 3 of fragment 'lines'"),
        ("epochs SET segments = 'null' WHERE epoch = 2", "epoch 2 of stream 'lines'"),
        ("epochs SET segments = '[[1,2]]' WHERE epoch = 2", "epoch 2 of stream 'lines'"),
        ('epochs SET segments = \'[["/etc/x",3,1,"f"]]\' WHERE epoch = 2', "epoch 2 of stream 'lines'"),
        ("epochs SET rows = 4 WHERE epoch = 2", "epoch 2 of stream 'lines'"),
        ("epochs SET bytes = -1 WHERE epoch = 1", "epoch 1 of stream 'lines'"),
        ("epochs SET epoch = -3 WHERE epoch = 3", "epoch -3 of stream 'lines'"),
        ("incarnations SET state = 'undead'", "incarnation 1 of node 'n1'"),
        ("incarnations SET report = '7'", "incarnation 1 of node 'n1'"),
        ("streams SET inputs = '{}'", "stream 'lines'"),
        ("deliveries SET epoch = -1", "the delivery to sink 's'"),
        ("failures SET epoch = -1", "the failure of 'f'"),
        ("events SET detail = 'x'", "event 1"),
    ],
)
def test_a_damaged_record_is_named(full: Keeper, change: str, record: str) -> None:
    damage(full, "UPDATE {}" + change.replace("'{}'", "'{ }'"))
    with pytest.raises(BrokenInvariant, match=re.escape(f"{record} is damaged in the keeper")):
        read_everything(full)


def test_text_where_a_number_belongs(sqlite_place: Place) -> None:
    keeper = sqlite_place.open()
    epochs(keeper, "lines", 1, keeper.enlist("n1", code=""))
    damage(keeper, "UPDATE epochs SET rows = 'three'")
    with pytest.raises(BrokenInvariant, match="epoch 1 of stream 'lines' is damaged") as raised:
        keeper.heads()
    assert raised.value.detail == "rows is 'three', not a whole number from 0"
