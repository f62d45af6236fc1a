from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from rekindle.home import HomeLock, create_or_open
from rekindle.keeper import open_keeper
from tests.cli.conftest import Rekindle, Ward, words
from tests.postgres import PostgresServer


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


def test_redundancy_for_people_and_scripts(rekindle: Rekindle, ward: Ward) -> None:
    ward.stream("lines")
    ward.keeper.own("lines", by=ward.node)
    replicas = {"lines": {"role": "computing", "epoch": 3, "of": 2}}
    ward.keeper.beat(ward.node, {"phase": "ready", "jvm_pid": 1, "failed": [], "replicas": replicas})
    [found] = rekindle("status", "--home", ward.home.root, "--json").json["redundancy"]
    assert (found["subject"], found["now"], found["wanted"], found["owner"]) == ("lines", 1, 2, "main")
    assert found["replicas"] == {"main": {"role": "computing", "epoch": 3, "of": 2}}
    assert found["missing"] == {"main.2": "not there"}
    shown = rekindle("status", "--home", ward.home.root).out
    assert "main computing 3" in shown
    assert "1 of 2: main.2 is not there" in shown


def test_a_running_supervisor_is_seen_and_not_disturbed(rekindle: Rekindle, ward: Ward) -> None:
    lock = HomeLock(ward.home)
    assert rekindle("status", "--home", ward.home.root, "--json").json["supervisor_pid"] == os.getpid()
    lock.release()
    assert rekindle("status", "--home", ward.home.root, "--json").json["supervisor_pid"] is None


def test_the_home_comes_from_the_environment(rekindle: Rekindle, ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_HOME", str(ward.home.root))
    assert rekindle("status", "--json").json["home"] == str(ward.home.root)


@pytest.mark.postgres
def test_a_keeper_on_postgresql(
    rekindle: Rekindle, tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_or_open(tmp_path / "home", "status_of_words", postgres.url)
    open_keeper(postgres.url, home=home).close()
    status = rekindle("status", "--home", home.root, "--keeper", postgres.url, "--json")
    assert status.code == 0
    assert status.json["keeper"].startswith("postgresql://")
    monkeypatch.setenv("REKINDLE_KEEPER", postgres.url)
    by_environment = rekindle("status", "--home", home.root)
    assert by_environment.code == 0
    monkeypatch.delenv("REKINDLE_KEEPER")
    without = rekindle("status", "--home", home.root, "--json")
    assert without.code in (2, 4, 5)
    for answer in (status, by_environment, without):
        assert postgres.password not in answer.out + answer.err


def test_a_keeper_that_does_not_answer(rekindle: Rekindle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.cli.opened.PATIENCE_S", 0.1)
    with socket.socket() as taken:  # bound and not listening: nobody else gets this port meanwhile
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://me:secret@127.0.0.1:{taken.getsockname()[1]}/x"
        home = create_or_open(tmp_path / "home", "words", url)
        answer = rekindle("status", "--home", home.root, "--keeper", url)
    assert answer.code == 5
    assert "secret" not in answer.out + answer.err


def test_another_keeper_is_refused_without_its_password(rekindle: Rekindle, ward: Ward) -> None:
    answer = rekindle("status", "--home", ward.home.root, "--keeper", "postgresql://me:secret@db/x")
    assert answer.code == 4
    assert "another keeper" in answer.err
    assert "secret" not in answer.err
