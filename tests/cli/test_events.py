from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Rekindle, Ward


def test_oldest_first_with_their_facts(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.event("node_died", "main", noticed="exit")
    ward.keeper.event("node_started", "main", pid=7)
    answer = rekindle("events", "--home", ward.home.root)
    assert answer.code == 0
    died, started = answer.lines[-2:]
    assert "node_died" in died and "noticed=exit" in died
    assert "node_started" in started and "pid=7" in started


def test_json_lines_by_kind_and_after_an_id(rekindle: Rekindle, ward: Ward) -> None:
    for i in range(5):
        ward.keeper.event("even" if i % 2 == 0 else "odd", "i", i=i)
    answer = rekindle("events", "--json", "--kind", "even", "--home", ward.home.root)
    found = [json.loads(line) for line in answer.lines]
    assert [event["detail"]["i"] for event in found] == [0, 2, 4]
    rest = rekindle("events", "--json", "--kind", "even", "--after", found[0]["id"], "--home", ward.home.root)
    assert [json.loads(line)["detail"]["i"] for line in rest.lines] == [2, 4]


def test_more_than_one_page(rekindle: Rekindle, ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(7):
        ward.keeper.event("made_up", "i", i=i)
    monkeypatch.setattr("rekindle.cli.events._PAGE", 3)
    answer = rekindle("events", "--json", "--kind", "made_up", "--home", ward.home.root)
    assert [json.loads(line)["detail"]["i"] for line in answer.lines] == list(range(7))


def test_events_cannot_steer_the_terminal(rekindle: Rekindle, ward: Ward) -> None:
    ward.keeper.event("made_up", "x\x1b[2J", text="a\nb")
    last = rekindle("events", "--home", ward.home.root).lines[-1]
    assert "\x1b" not in last
    assert "text=a\\nb" in last
