"""From outputs to pauses, from pauses to verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from bench import _pauses as p


def outputs(*times: float, rows: int = 10) -> list[p.Output]:
    return [p.Output(at_s, rows) for at_s in times]


def pause(pause_s: float, interval_s: float = 0.5) -> p.Pause:
    return p.Pause(pause_s, interval_s, pause_s, 3.0, ((-0.1, 5), (pause_s, 5)), ((0.1, "node_died", "main"),))


def run(peer: str, *pauses_s: float, keys: int = 10_000, outcome: str = "exact", failed: str = "") -> p.Run:
    return p.Run(peer, keys, 1, 100, outcome, failed, tuple(pause(s) for s in pauses_s))


def test_the_pause_counts_from_the_last_output_before_the_kill() -> None:
    assert p.longest_pause(outputs(0, 1, 2, 7, 8), kill_s=2.5, until_s=8) == 5


def test_a_longer_stall_after_the_first_output_is_the_pause() -> None:
    assert p.longest_pause(outputs(0, 1, 3, 9, 10), kill_s=1.5, until_s=10) == 6


def test_what_lies_before_the_kill_or_after_the_stretch_is_no_pause_of_it() -> None:
    assert p.longest_pause(outputs(0, 20, 21, 22, 50), kill_s=20.5, until_s=22) == 1


def test_an_epoch_without_rows_does_not_end_a_pause() -> None:
    seen = [*outputs(0, 1, 9), p.Output(2, 0)]
    assert p.longest_pause(seen, kill_s=1.5, until_s=9) == 8


@pytest.mark.parametrize("times", [(0.0, 1.0), (3.0, 4.0), ()])
def test_a_pause_needs_output_on_both_sides(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="no output"):
        p.longest_pause(outputs(*times), kill_s=2, until_s=9)


def test_the_epoch_interval_is_of_the_steady_stretch_only() -> None:
    assert p.epoch_interval(outputs(0, 5, 5.5, 6.0, 6.4, 9.0), after_s=5, until_s=6.5) == pytest.approx(0.5)


def test_a_pause_is_told_in_seconds_after_the_kill() -> None:
    kill = p.Kill(at_s=102.5, steady_from_s=100.0, redundant_at_s=106.0, until_s=110.0)
    events = [(90.0, "node_started", "main"), (102.75, "node_died", "main"), (111.0, "node_died", "main")]
    found = p.pause_of(outputs(99, 100, 101, 102, 105, 106, 110, 111), kill, events)
    assert (found.pause_s, found.interval_s, found.first_output_s, found.redundant_s) == (4, 1, 2.5, 3.5)
    assert [at_s for at_s, _ in found.timeline] == [-2.5, -1.5, -0.5, 2.5, 3.5, 7.5]
    assert found.events == ((0.25, "node_died", "main"),)


def test_a_share_is_of_plain_spark_with_as_many_keys() -> None:
    runs = [run(p.PLAIN, 10, 20, 30), run(p.PLAIN, 40, keys=1_000_000)]
    runs += [run(p.PASSIVE, 2, 3, 4), run(p.PASSIVE, 4, keys=1_000_000)]
    shares = {(f.peer, f.keys): f.share for f in p.figures(runs)}
    assert shares[p.PASSIVE, 10_000] == pytest.approx(0.15)
    assert shares[p.PASSIVE, 1_000_000] == pytest.approx(0.1)


def test_kills_of_all_rounds_count_together() -> None:
    (figure,) = p.figures([run(p.ROLLBACK, 1, 2), run(p.ROLLBACK, 9)])
    assert (figure.kills, figure.median_s, figure.worst_s) == (3, 2, 9)
    assert figure.share is None and figure.share_goal is None  # plain Spark was not there


@pytest.mark.parametrize(("pause_s", "verdict"), [(0.6, True), (0.7, False)])
def test_the_active_standby_has_a_goal_in_plain_sparks_pauses(pause_s: float, verdict: bool) -> None:
    figure = p.figures([run(p.PLAIN, 10), run(p.ACTIVE, pause_s)])[1]
    assert figure.share_goal is not None and figure.share_goal.met is verdict


@pytest.mark.parametrize(("pause_s", "verdict"), [(1.0, True), (1.1, False)])
def test_and_one_in_its_own_epochs(pause_s: float, verdict: bool) -> None:
    (figure,) = p.figures([run(p.ACTIVE, pause_s)])
    assert figure.epochs_goal is not None and figure.epochs_goal.met is verdict


def test_only_runs_that_failed_make_no_figure() -> None:
    assert p.figures([run(p.GAP, failed="did not become ready")]) == []


@pytest.mark.parametrize(
    ("outcome", "failed", "sound"),
    [("exact", "", True), ("at most (3 rows)", "", True), ("WRONG: 2 keys", "", False), ("exact", "it ended", False)],
)
def test_a_run_is_sound_if_it_did_not_fail_and_its_output_is_right(outcome: str, failed: str, sound: bool) -> None:
    assert run(p.GAP, outcome=outcome, failed=failed).sound is sound


def test_growth_is_the_longest_over_the_shortest_over_the_sizes() -> None:
    runs = [run(p.PASSIVE, s, keys=keys) for keys, s in ((10_000, 2.0), (100_000, 1.0), (1_000_000, 1.8))]
    goal = p.growth(p.figures([*runs, run(p.ACTIVE, 1.0)]))
    assert list(goal) == [p.PASSIVE]
    assert goal[p.PASSIVE].value == 2.0 and not goal[p.PASSIVE].met


def test_backup_must_not_cost_more_than_a_tenth() -> None:
    assert p.backup_ratio([90, 95, 91], [100, 100, 100]).met
    assert not p.backup_ratio([89, 80], [100, 100]).met


def test_the_table_says_met_or_missed() -> None:
    rows = p.table(p.figures([run(p.PLAIN, 10), run(p.ACTIVE, 0.9), run(p.POOL, 4)]))
    assert rows[1][5] == ""
    assert rows[2][5] == "0.090 (at most 0.06, MISSED)" and rows[2][7] == "1.8 (at most 2, met)"
    assert rows[3][5] == "0.400 (at most 0.35, MISSED)" and rows[3][7] == "8.0"
    text = p.as_text(rows).splitlines()
    assert len(text) == 4 and "ActiveStandby" in text[2]
    markdown = p.as_markdown(rows).splitlines()
    assert markdown[1].count("---") == len(rows[0]) and all(line.count("|") == len(rows[0]) + 1 for line in markdown)


def test_a_run_survives_json() -> None:
    before = run(p.POOL, 1.5, 2.5)
    assert p.Run.from_json(json.loads(json.dumps(asdict(before)))) == before
