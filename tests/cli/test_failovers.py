"""Fail-overs as they come out of a real keeper, and as they are shown."""

from __future__ import annotations

import json

import pytest

from rekindle.cli.failovers import epochs_between
from rekindle.keeper.records import EpochNumber, Output, Span
from tests.cli.conftest import Rekindle, Ward, words


def failed_over(ward: Ward) -> None:
    """Node main dies and is started again. The clock of the records moves by a second at each of them."""
    keeper = ward.keeper
    ward.stream("lines")
    first = ward.node
    keeper.beat(first, {"phase": "ready", "replicas": {"lines": {"role": "computing", "epoch": 2, "of": 1}}})
    ward.publish("lines", words("a"))
    ward.publish("lines", words("b"))
    keeper.fence(first, "killed by signal 9")
    keeper.event(
        "node_died", "main", incarnation=first, noticed="killed by signal 9", exit_code=-9, deaths=1, silent_s=9
    )
    keeper.event("node_fenced", "main", incarnation=first, why="killed by signal 9")
    ward.node = keeper.enlist("main", code="c0de")
    keeper.event("node_started", "main", incarnation=ward.node, pid=5)
    keeper.event("node_ready", "main", incarnation=ward.node, after_s=1.0)
    ward.publish("lines", words("c"))


def test_for_people(rekindle: Rekindle, ward: Ward) -> None:
    failed_over(ward)
    answer = rekindle("events", "--failovers", "--home", ward.home.root)
    assert answer.code == 0
    assert "node main, incarnation 1" in answer.lines[0]
    assert [line.split(" s  ")[1].split("  ")[0] for line in answer.lines[1:]] == [
        "died",
        "noticed",
        "fenced",
        "chosen",
        "ready",
        "first epoch",
    ]
    assert "killed by signal 9" in answer.out
    assert "epoch 3 of lines, by incarnation 2; output paused" in answer.out


def test_for_scripts(rekindle: Rekindle, ward: Ward) -> None:
    failed_over(ward)
    ward.keeper.event("node_died", "main", incarnation=2, noticed="its \x1b[2Jprocess is gone")
    first, second = map(json.loads, rekindle("events", "--failovers", "--json", "--home", ward.home.root).lines)
    assert (first["node"], first["incarnation"], first["streams"][0]["first_epoch"]) == ("main", 1, 3)
    assert first["redundancy_restored_after_s"] > 0
    assert [entry["step"] for entry in first["chain"]][-1] == "first epoch"
    assert second["redundancy_restored_after_s"] is None
    shown = rekindle("events", "--failovers", "--home", ward.home.root)
    assert "the redundancy is not restored yet" in shown.lines[-1]
    assert "no epoch yet" in shown.out
    assert "\x1b" not in shown.out


def test_none(rekindle: Rekindle, ward: Ward) -> None:
    answer = rekindle("events", "--failovers", "--home", ward.home.root)
    assert (answer.code, answer.out, answer.err) == (0, "", "no fail-overs\n")


@pytest.mark.parametrize("option", [["--follow"], ["--after", 3], ["--kind", "node_died"]])
def test_what_selects_events_is_refused(rekindle: Rekindle, ward: Ward, option: list[object]) -> None:
    answer = rekindle("events", "--failovers", *option, "--home", ward.home.root)
    assert answer.code == 2
    assert "--failovers takes all events" in answer.err


def test_the_epochs_around_a_time_are_found_without_reading_all(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.stream("lines")
    published = [ward.publish("lines", words("a")) for _ in range(40)]
    asked: list[int] = []
    epoch_of, epochs_of = ward.keeper.epoch, ward.keeper.epochs

    def epoch(stream: str, number: EpochNumber) -> object:
        asked.append(number)
        return epoch_of(stream, number)

    def epochs(stream: str, *, after: int, limit: int | None = None) -> object:
        asked.append(after)
        return epochs_of(stream, after=after, limit=limit)

    monkeypatch.setattr(ward.keeper, "epoch", epoch)
    monkeypatch.setattr(ward.keeper, "epochs", epochs)
    monkeypatch.setattr("rekindle.cli.failovers._PAGE", 4)
    from_s, through_s = published[29].published_at_s + 0.5, published[31].published_at_s
    assert [e.epoch for e in epochs_between(ward.keeper, "lines", from_s, through_s)] == [30, 31, 32, 33]
    assert len(asked) < 12
    assert [e.epoch for e in epochs_between(ward.keeper, "lines", 0.0, 1.0)] == [1]
    assert [e.epoch for e in epochs_between(ward.keeper, "lines", 2e9, 2e9)] == [40]


def test_dropped_epochs_do_not_end_a_pause(ward: Ward) -> None:
    ward.stream("lines")
    before = ward.publish("lines", words("a"))
    empty = Output((), 0, 0, "0:0:0", dropped=7)
    ward.keeper.claim("lines", EpochNumber(2), {"outside": Span(1, 2)}, by=ward.node)
    ward.keeper.publish("lines", EpochNumber(2), {"lines": empty}, by=ward.node)
    ward.publish("lines", words("b"))
    ward.publish("lines", words("c"))
    at_s = before.published_at_s
    assert [e.epoch for e in epochs_between(ward.keeper, "lines", at_s, at_s)] == [1, 2, 3]
