from __future__ import annotations

import os

import pytest

from rekindle.home import HomeLock
from tests.cli.conftest import Rekindle, Ward, words


def test_for_people(rekindle: Rekindle, ward: Ward) -> None:
    ward.stream("lines")
    ward.publish("lines", words("a", "b"))
    answer = rekindle("status", "--home", ward.home.root)
    assert answer.code == 0
    assert "no supervisor runs" in " ".join(answer.out.split())
    assert "lines" in answer.out


def test_for_scripts(rekindle: Rekindle, ward: Ward) -> None:
    ward.stream("lines")
    ward.publish("lines", words("a", "b"))
    status = rekindle("status", "--home", ward.home.root, "--json").json
    assert status["pipeline"] == "words"
    assert status["supervisor_pid"] is None
    assert [(s["stream"], s["epoch"], s["rows"]) for s in status["streams"]] == [("lines", 1, 2)]
    assert [(n["node"], n["state"]) for n in status["nodes"]] == [("main", "starting")]


def test_a_running_supervisor_is_seen_and_not_disturbed(rekindle: Rekindle, ward: Ward) -> None:
    lock = HomeLock(ward.home)
    assert rekindle("status", "--home", ward.home.root, "--json").json["supervisor_pid"] == os.getpid()
    lock.release()
    assert rekindle("status", "--home", ward.home.root, "--json").json["supervisor_pid"] is None


def test_the_home_comes_from_the_environment(rekindle: Rekindle, ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_HOME", str(ward.home.root))
    assert rekindle("status", "--json").json["home"] == str(ward.home.root)


def test_another_keeper_is_refused_without_its_password(rekindle: Rekindle, ward: Ward) -> None:
    answer = rekindle("status", "--home", ward.home.root, "--keeper", "postgresql://me:secret@db/x")
    assert answer.code == 4
    assert "another keeper" in answer.err
    assert "secret" not in answer.err
