"""The whole suite, with peers that are small scripts and a workload of its own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import suite
from bench._workload import Workload
from bench.peers.base import PeerFailed, Place
from tests.bench.fakes import SCRIPT, Copier
from tests.bench.workloads import AS_IT_IS

BREAKING = "raise SystemExit('no licence')"


def make_peer(name: str, _workload: Workload, place: Place, *_: Any, **__: Any) -> Copier:
    peer = Copier(place, BREAKING if name == "spark_tuned" else SCRIPT)
    peer.name = name
    return peer


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two runs of a workload with four files."""
    monkeypatch.setattr("bench._workload.all_workloads", lambda: {"as_it_is": AS_IT_IS})
    monkeypatch.setattr(suite, "make_peer", make_peer)
    monkeypatch.setattr(suite, "runs", lambda *_: True)
    return ["--workloads", "as_it_is", "--rounds", "2", "--measures", "throughput", "--files", "6"]


def run(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, Any]]:
    path = tmp_path / "it.json"
    monkeypatch.setattr(sys, "argv", ["suite", *arguments, "--json", str(path)])
    code = suite.main()
    return code, json.loads(path.read_text()) if path.exists() else {}


def test_peers_run_in_turns_and_every_other_round_the_other_way(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = run([*small, "--peers", "spark,rekindle"], tmp_path, monkeypatch)
    assert code == 0
    assert [said["peer"] for said in report["runs"]] == ["spark", "rekindle", "rekindle", "spark"]
    assert {said["round"] for said in report["runs"]} == {1, 2}
    assert report["machine"]["pyspark"] and report["machine"]["java"] is not None
    captured = capsys.readouterr()
    assert "as_it_is, throughput, round 2: spark: exact (60 rows)" in captured.err
    assert (tmp_path / "it.html").exists() and (tmp_path / "it" / "benchmarks-throughput.png").exists()
    assert not list(tmp_path.glob("run-*"))


def test_a_peer_that_fails_is_the_exit_code_and_the_others_go_on(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = run([*small, "--peers", "spark_tuned,rekindle", "--rounds", "1"], tmp_path, monkeypatch)
    assert code == 1
    assert [bool(said["failed"]) for said in report["runs"]] == [True, False]
    assert "spark_tuned: FAILED: it ended by itself\nno licence" in capsys.readouterr().out


def test_without_a_reference_every_peer_has_failed(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_reference(*_: Any) -> None:
        raise PeerFailed("spark ended by itself")

    unknown = replace(AS_IT_IS, expected=None)
    monkeypatch.setattr("bench._workload.all_workloads", lambda: {"as_it_is": unknown})
    monkeypatch.setattr(suite, "reference", no_reference)
    code, report = run([*small, "--peers", "rekindle"], tmp_path, monkeypatch)
    assert code == 1
    assert report["runs"][0]["failed"] == "there is nothing to compare with: spark ended by itself"


def test_what_undisturbed_spark_puts_out_is_the_reference(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench._workload.all_workloads", lambda: {"as_it_is": replace(AS_IT_IS, expected=None)})
    code, report = run([*small, "--peers", "rekindle", "--rounds", "1"], tmp_path, monkeypatch)
    assert code == 0 and report["runs"][0]["verdict"]["expected"] == 60


def test_what_is_wrong_in_the_command_is_told_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--workloads", "wordcont"], tmp_path, monkeypatch)[0] == 2
    assert "did you mean 'wordcount'" in capsys.readouterr().err
    assert run(["--from", str(tmp_path / "none.json")], tmp_path, monkeypatch)[0] == 2
