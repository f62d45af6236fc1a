"""Peers by name."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import peers
from bench._labels import LABELS
from bench._place import POLICIES
from bench._workload import WorkloadError
from bench.peers.base import Place
from bench.peers.flink import Flink
from bench.peers.rekindle import Rekindle
from bench.peers.spark import Spark
from tests.bench.workloads import AS_IT_IS

PLACE = Place(Path("/run"), Path("/in"), 2, rows_max=123)


def test_every_peer_can_be_made_and_has_a_name_for_people() -> None:
    for name in peers.PEERS:
        made = peers.make_peer(name, AS_IT_IS, PLACE, print)
        assert made.name == name and LABELS[name]
        assert isinstance(made, Spark if "spark" in name else Flink if "flink" in name else Rekindle)


def test_a_policy_of_its_own_and_the_limits_reach_the_pipeline() -> None:
    made = peers.make_peer("rekindle:passive_standby", AS_IT_IS, PLACE, print, interval_s=5.0)
    assert isinstance(made, Rekindle)
    said = made.pipeline.environment
    assert (said["BENCH_POLICY"], said["BENCH_INTERVAL_S"], said["BENCH_ROWS_MAX"]) == ("passive_standby", "5.0", "123")
    assert (said["BENCH_INPUT"], said["BENCH_OUTPUT"]) == ("/in", "/run/output")
    assert json.loads(said["BENCH_PARAMETERS"]) == {"least": 0}
    heaped = peers.make_peer("rekindle:memory", AS_IT_IS, PLACE, print)
    assert isinstance(heaped, Rekindle)
    assert (heaped.pipeline.policy, heaped.pipeline.environment["BENCH_STATE"]) == ("rollback", "memory")
    plain = peers.make_peer("rekindle", AS_IT_IS, PLACE, print)
    assert isinstance(plain, Rekindle) and plain.pipeline.policy == "rollback" in POLICIES


def test_who_has_no_query_does_not_run() -> None:
    both = replace(AS_IT_IS, query=None, flink=None)
    assert [name for name in peers.PEERS if peers.runs(name, both)] == [n for n in peers.PEERS if "rekindle" in n]


def test_names_are_checked_and_come_once() -> None:
    assert peers.picked_peers(["spark", "rekindle", "spark"]) == ["spark", "rekindle"]
    with pytest.raises(WorkloadError, match="no peer 'flink_tune'; did you mean 'flink_tuned'"):
        peers.picked_peers(["flink_tune"])
