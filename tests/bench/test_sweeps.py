"""What varies in a sweep, and what is read off it."""

from __future__ import annotations

from bench._sweeps import PEERS, SWEEPS, points, settings
from bench.wordcount.workload import WORKLOADS
from tests.bench.results import killed

WORDS = WORKLOADS[0]


def test_who_ships_no_layers_runs_once_against_their_interval() -> None:
    assert [interval_s for _, interval_s in settings("interval", WORDS, "rekindle:rollback")] == [1, 5, 15]
    assert [interval_s for _, interval_s in settings("interval", WORDS, "rekindle:source_replay")] == [None]


def test_rate_and_state_are_parameters_of_the_word_count() -> None:
    for sweep, parameter in (("rate", "rate"), ("state", "words")):
        runs = settings(sweep, WORDS, PEERS[0])
        assert [workload.parameters[parameter] for workload, _ in runs] == list(SWEEPS[sweep].values)
    assert {workload.parameters["window_s"] for workload, _ in settings("state", WORDS, PEERS[0])} == {3600}


def test_a_point_is_the_median_of_the_kills_there() -> None:
    runs = [killed("rekindle", 1.0, 3.0, parameters={"rate": 250}), killed("rekindle", 8.0, parameters={"rate": 4000})]
    runs.append(killed("spark", 99.0, parameters={"rate": 250}))
    assert points(runs, "rate", "rekindle", "pause_s") == [(250.0, 2.0), (4000.0, 8.0)]
    assert points(runs, "rate", "rekindle", "caught_up_s") == [(250.0, 4.0), (4000.0, 16.0)]
