"""The worker that trims, on real records and files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import Fenced
from rekindle.keeper.records import EpochNumber, SafePoint
from rekindle.node import trim
from rekindle.node.trim import SUBJECT
from rekindle.sinks import Console
from tests.keeper.place import stream
from tests.node.household import Household

N = EpochNumber


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Household]:
    made = Household(tmp_path / "home")
    yield made
    made.close()


def test_what_nobody_needs_goes_with_its_files(house: Household) -> None:
    house.everything(10)
    house.turns(2)
    assert house.oldest() == {"lines": 10, "plain": 7, "window": 7, "sums": 10, "tail": 10}
    assert house.first_claims() == {"lines": 9, "plain": 7, "window": 6, "sums": 9, "tail": 9}
    assert house.folders("lines") == [10] and house.folders("plain") == [7, 8, 9, 10]
    house.everything(2)
    house.turns(2)
    assert house.oldest() == {"lines": 12, "plain": 9, "window": 9, "sums": 12, "tail": 12}
    assert {event.kind for event in house.keeper.events()} == set()


def test_a_turn_trims_what_an_earlier_one_has_seen_and_every_node_has_answered(house: Household) -> None:
    other = house.keeper.enlist("other", code="")
    house.everything(10)
    house.trim.turn()
    assert house.oldest()["lines"] == 1
    for _ in range(2):
        house.beat()
    house.beat_of(other, {})
    house.trim.turn()
    assert house.oldest()["lines"] == 1, "the other node's report may be older than the survey"
    house.beat_of(other, {"sums": 8})
    house.trim.turn()
    assert house.oldest() == {"lines": 8, "plain": 7, "window": 7, "sums": 8, "tail": 10}
    house.keeper.fence(other, "test")
    house.turns(3)
    assert house.oldest()["lines"] == 10


def test_a_report_that_comes_while_a_turn_looks_is_waited_for(
    house: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = house.keeper.enlist("other", code="")
    house.everything(10)
    house.trim.turn()
    for _ in range(2):
        house.beat()
    house.beat_of(other, {})
    real = house.keeper.safe_points

    def after_a_beat(fragment: str) -> list[SafePoint]:
        monkeypatch.undo()
        house.beat_of(other, {"sums": 8})  # the second one, but the reports were read before
        return real(fragment)

    monkeypatch.setattr(house.keeper, "safe_points", after_a_beat)
    house.trim.turn()
    assert house.keeper.safe_points == real, "it beat"
    assert house.oldest()["lines"] == 1
    house.trim.turn()
    assert house.oldest()["lines"] == 8


def test_a_replica_that_has_not_decided_holds_everything_back_and_one_that_waits_nothing(house: Household) -> None:
    house.everything(10)
    house.turns(4, sums=0)
    assert (house.oldest()["lines"], house.oldest()["sums"], house.oldest()["tail"]) == (1, 1, 10)
    for _ in range(3):
        for _ in range(2):
            house.keeper.beat(house.me, {"replicas": {"sums": {"role": "waiting", "epoch": 0, "of": 2}}})
        house.trim.turn()
    assert house.oldest()["lines"] == 10


def test_young_epochs_stay(tmp_path: Path) -> None:
    house = Household(tmp_path / "home", retain_s=60.0)
    for _ in range(10):
        house.now_s += 10
        house.everything(1)
    house.now_s += 5
    house.turns(2)
    assert set(house.oldest().values()) == {5}, "published 65 to 105 s ago: 1 to 4"
    house.now_s += 1000
    house.turns(2)
    assert house.oldest()["lines"] == 10
    house.close()


def test_a_stream_has_its_own_age(house: Household) -> None:
    house.everything(10)
    object.__setattr__(house.pipeline.sources["lines"], "retain_s", float("inf"))
    house.now_s += 1e9
    house.turns(2)
    assert house.oldest()["lines"] == 1 and house.oldest()["sums"] == 10


def test_pages(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "PAGE", 3)
    house.everything(10)
    house.turns(2)
    assert house.oldest()["lines"] == 10 and house.first_claims()["lines"] == 9


def test_safe_points_pins_and_sinks_hold_back(house: Household) -> None:
    house.everything(4)
    house.keeper.pin("sums", N(4), "a snapshot")
    house.everything(6)
    house.step("sums")
    house.turns(2)
    assert (house.oldest()["lines"], house.oldest()["sums"]) == (5, 5)
    house.keeper.unpin("sums", N(4), "a snapshot")
    house.turns(2)
    assert (house.oldest()["lines"], house.oldest()["sums"]) == (5, 5), "it is a safe point that is kept"
    house.keeper.retire_safe_points("sums", keep=1, by=house.me)
    house.turns(2)
    assert (house.oldest()["lines"], house.oldest()["sums"]) == (10, 11), "the sink lacks epoch 11"


def test_the_history_of_a_source_that_needs_it_stays(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = house.pipeline.sources["lines"].source
    monkeypatch.setattr(type(source), "needs_history", True)
    house.everything(10)
    house.turns(2)
    assert house.oldest()["lines"] == 10 and house.first_claims()["lines"] == 1


def test_a_crash_between_records_and_files_is_made_up_for(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    house.everything(10)
    removed: list[Path] = []

    def crash(path: Path) -> None:
        if len(removed) == 3:
            (path / next(path.iterdir()).name).unlink()  # half-way through a folder
            raise SystemExit
        removed.append(path)
        rmtree(path)

    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", crash)
    with pytest.raises(SystemExit):
        house.turns(2)
    monkeypatch.undo()
    assert house.oldest()["lines"] == 10 and len(house.folders("lines")) == 7
    odd = [house.home.streams / "lines" / name for name in ("notes", "000000000001.txt")]
    for path in odd:
        path.touch()
    house.trim = house.trimmer()
    house.trim.turn()
    for path in odd:
        path.unlink()  # not ours, so they are left
    assert house.folders("lines") == [10]
    house.beat()
    house.beat()
    house.trim.turn()
    assert {name: min(house.folders(name)) for name in house.inputs} == house.oldest()


def test_orphans_of_old_epochs_go(house: Household) -> None:
    house.everything(10)
    orphan = house.home.streams / "lines" / f"{3:012d}-77-1"
    young = house.home.streams / "lines" / f"{11:012d}-77-1"
    for folder in (orphan, young):
        folder.mkdir()
    house.turns(2)
    assert not orphan.exists() and young.exists()


def test_who_is_in_no_pipeline_any_more_is_not_waited_for(house: Household) -> None:
    house.keeper.record_stream(stream("old", None, "lines"))
    house.inputs["old"] = ("lines",)
    house.everything(4)
    house.deliver("removed", "tail")
    del house.inputs["old"]
    house.everything(6)
    house.turns(4, old=4, removed=5)
    assert (house.oldest()["lines"], house.oldest()["tail"]) == (1, 1), "a node still runs the older file"
    refusals = house.keeper.events(kinds=["trim_refused"])
    assert sorted(e.detail["reason"].rpartition("by ")[2] for e in refusals) == ["fragment 'old'", "sink 'removed'"]
    house.turns(3)
    assert (house.oldest()["lines"], house.oldest()["tail"]) == (10, 10)
    assert house.keeper.oldest("old") == 1, "what it left is kept"


def test_a_sink_that_is_new_keeps_everything_until_it_has_begun(house: Household) -> None:
    house.everything(6)
    house.turns(2)
    house.pipeline.sink("lines", Console(), name="late")
    house.everything(6)
    house.turns(3)
    assert house.oldest()["lines"] == 6
    house.deliver("late", "lines")
    house.turns(3)
    assert house.oldest()["lines"] == 12


def test_the_oldest_logs_go(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "LOGS_KEPT", 3)
    monkeypatch.setattr(trim, "EVENTS_KEPT", 2)
    names = [f"main-{number}.log" for number in (1, 2, 3, 4, 5, 10)]
    for name in [*names, "main.log", "notes.txt"]:
        (house.home.logs / name).touch()
    for number in range(5):
        house.keeper.event("k", f"s{number}")
    assert house.me == 1, "it is live, so its log stays"
    house.trim.turn()
    kept = ["main-1.log", "main-10.log", "main-4.log", "main-5.log", "main.log", "notes.txt"]
    assert sorted(path.name for path in house.home.logs.iterdir()) == kept
    assert [event.subject for event in house.keeper.events()] == ["s3", "s4"]
    (house.home.logs / "main-3.log").touch()
    house.trim.turn()
    assert (house.home.logs / "main-3.log").exists(), "not at every turn"
    house.now_s += trim.TIDY_S
    house.trim.turn()
    assert not (house.home.logs / "main-3.log").exists()


def test_the_logs_of_replicas_and_warm_nodes_go_too(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "LOGS_KEPT", 1)
    for name in ("main.2-3.log", "pool.1-4.log", "main-5.log", "main.-6.log", "main.x-7.log", "main.2.log"):
        (house.home.logs / name).touch()
    house.trim.turn()
    kept = ["main-5.log", "main.-6.log", "main.2.log", "main.x-7.log"]
    assert sorted(path.name for path in house.home.logs.iterdir()) == kept


def test_only_the_owner_trims(house: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "EVERY_S", 0.001)
    other = house.keeper.enlist("other", code="")
    house.keeper.own(SUBJECT, by=other)
    turns: list[int] = []

    def turn() -> None:
        turns.append(1)
        house.stopping.set()

    monkeypatch.setattr(house.trim, "turn", turn)
    house.trim.context.ownership.start("main", {SUBJECT: True})
    house.trim.start()
    assert not house.trim.join(0.2) and not turns
    house.keeper.fence(other, "test")
    assert house.trim.join(10) and turns == [1]
    assert house.keeper.owners()[SUBJECT].incarnation == house.me


def test_a_fenced_owner_trims_nothing(house: Household) -> None:
    house.everything(10)
    house.turns(1)
    house.keeper.fence(house.me, "test")
    with pytest.raises(Fenced):
        house.trim.turn()
    assert set(house.oldest().values()) == {1}
