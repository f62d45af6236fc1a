"""A run from its start to its verdict, with a peer that is a small script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from bench._feed import Staged, stage
from bench._pauses import Kill
from bench._runs import Asked, Lags, Plan, Result, run
from bench._workload import Scale
from bench.peers.base import Place, marked
from tests.bench.fakes import SCRIPT, Copier
from tests.bench.workloads import AS_IT_IS, expected


def copier(tmp_path: Path, script: str = SCRIPT) -> Copier:
    return Copier(Place(tmp_path / "run", tmp_path / "source", 1), script)


def staged(tmp_path: Path, steps: int, pace_s: float | None = None) -> Staged:
    return stage(AS_IT_IS, Scale(steps, pace_s), tmp_path / "staged")


def asked(measure: str, plan: Plan, given: Staged, said: Sequence[str] = ()) -> Asked:
    wanted = expected(given.steps, {})
    return Asked(measure, 1, plan, wanted, Random(1), list(said).append)


def test_throughput_is_of_what_arrives_after_the_warm_up(tmp_path: Path) -> None:
    given, peer = staged(tmp_path, 12), copier(tmp_path)
    found = run(peer, given, asked("throughput", Plan(warm_steps=2), given))
    assert found.is_sound, found.outcome
    assert (found.rows, found.cpu_rows) == (120, 100)
    assert found.rows_per_s is not None and found.rows_per_s > 0
    assert found.cpu_s is not None and found.recovery_bytes == {"nothing": 1}
    assert marked(peer.mark) == []
    assert Result.from_json(json.loads(json.dumps(found.to_json()))) == replace(found, recovery_bytes={"nothing": 1})


def test_a_kill_is_a_pause_and_is_caught_up_with(tmp_path: Path) -> None:
    given, peer = staged(tmp_path, 60, pace_s=0.05), copier(tmp_path)
    found = run(peer, given, asked("recovery", Plan(1, kills=1, lead_s=0.5), given))
    assert found.is_sound, found.outcome
    (pause,) = found.pauses
    assert 0 < pause["first_output_s"] <= pause["pause_s"]
    assert {at_s > 0 for at_s, _ in found.timeline} == {True, False}
    assert sum(rows for _, rows in found.timeline) == 59 * 5


def test_who_cannot_lose_its_disk_has_failed_where_it_should(tmp_path: Path) -> None:
    given = staged(tmp_path, 20, pace_s=0.05)
    found = run(copier(tmp_path), given, asked("recovery", Plan(1, kills=1, lead_s=0.1, disk_too=True), given))
    assert found.failed == "copier cannot lose its disk"


def test_a_peer_that_loses_a_file_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench._runs.DRAIN_S", 1.0)
    losing = SCRIPT.replace("os.listdir(source)", "set(os.listdir(source)) - {'000004.parquet'}")
    given = staged(tmp_path, 6)
    found = run(copier(tmp_path, losing), given, asked("throughput", Plan(warm_steps=2), given))
    assert found.verdict is not None and found.verdict.lost == 10
    assert not found.is_sound and found.outcome == "10 lost"


def test_a_peer_that_ends_by_itself_has_failed_and_says_why(tmp_path: Path) -> None:
    given = staged(tmp_path, 6)
    found = run(copier(tmp_path, "raise SystemExit('no licence')"), given, asked("throughput", Plan(2), given))
    assert found.failed == "it ended by itself\nno licence" and not found.is_sound


# -- lags --------------------------------------------------------------------------------------------------


def lags(*newest: tuple[float, float]) -> Lags:
    return Lags(np.array([]), np.array([]), newest)


def test_latency_is_of_rows_whose_cause_came_after_the_warm_up() -> None:
    found = Lags(np.array([1.0, 5.0, 6.0, 9.0]), np.array([0.0, 4.5, 5.0, 5.0]), ())
    assert found.percentiles(4.0) == pytest.approx({"p50": 1.0, "p99": 3.94, "max": 4.0, "rows": 3})
    assert found.percentiles(10.0) == {}


def test_caught_up_is_when_output_is_as_fresh_as_before_and_stays_so() -> None:
    before = [(at_s, 0.4) for at_s in (4.0, 5.0, 6.0)]
    after = [(12.0, 5.0), (13.0, 0.5), (13.5, 2.0), (14.0, 0.5), (15.0, 0.4), (20.0, 0.4)]
    kill = Kill(at_s=10.0, steady_from_s=0.0, redundant_at_s=15.0, until_s=30.0)
    assert lags(*before, *after).caught_up(kill) == 4.0
    assert lags(*before, (12.0, 5.0)).caught_up(kill) is None
    assert lags(*after).caught_up(kill) is None  # nothing to compare with
