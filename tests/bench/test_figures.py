"""From runs to figures, ratios and goals."""

from __future__ import annotations

import pytest

from bench._figures import Figure, aims, figures, median
from bench._verdict import Verdict
from tests.bench.results import killed, result


def aim(what: str, found: list[Figure]) -> tuple[float, str]:
    (one,) = [aim for aim in aims(found) if what in aim.what]
    return round(one.goal.value, 6), one.verdict


def test_rounds_are_a_median_and_failed_ones_only_count_as_failed() -> None:
    rates = [result("rekindle", "throughput", rows_per_s=rate, cpu_s=1.0, cpu_rows=500_000) for rate in (1.0, 9.0, 2.0)]
    (figure,) = figures([*rates, result("rekindle", "throughput", failed="it ended\nlog", verdict=None)])
    assert (figure.runs, figure.failed, figure.rows_per_s, figure.cpu_s_per_million) == (4, 1, 2.0, 2.0)
    assert figure.outcomes == ("exact (100 rows)", "FAILED: it ended")


def test_the_worst_is_of_all_rounds_and_what_is_counted_is_added_up() -> None:
    (figure,) = figures([killed("spark", 10.0, 30.0, verdict=Verdict(9, changed=3)),
                         killed("spark", 11.0, verdict=Verdict(9, lost=1, changed=4))])  # fmt: skip
    assert (figure.kills, figure.pause_s, figure.worst_pause_s, figure.caught_up_s) == (3, 11.0, 30.0, 22.0)
    assert (figure.lost, figure.changed) == (1, 7)


def test_the_latency_has_a_longest_of_all_rounds() -> None:
    each = [result("spark", "latency", latency_s={"p50": p, "p99": 2 * p, "max": 3 * p, "rows": 5}) for p in (1.0, 2.0)]
    (figure,) = figures(each)
    assert (figure.p50_s, figure.p99_s, figure.max_s) == (1.5, 3.0, 6.0)


@pytest.mark.parametrize(("rate", "verdict"), [(94.0, "missed by 0.01"), (95.0, "met"), (120.0, "met")])
def test_throughput_is_to_be_near_tuned_spark(rate: float, verdict: str) -> None:
    found = figures([result("spark_tuned", "throughput", rows_per_s=100.0),
                     result("rekindle", "throughput", rows_per_s=rate)])  # fmt: skip
    assert aim("throughput", found) == (rate / 100, verdict)


def test_a_median_latency_above_plain_sparks_misses() -> None:
    found = figures([result(peer, "latency", latency_s={"p50": p50, "p99": 9.0, "max": 9.0})
                     for peer, p50 in (("spark", 0.4), ("rekindle", 0.5))])  # fmt: skip
    assert aim("latency", found) == (1.25, "missed by 0.25")


def test_pauses_have_goals_against_three_peers() -> None:
    found = figures([killed("spark", 20.0), killed("flink", 20.0), killed("flink_tuned", 4.0),
                     killed("rekindle:active_standby", 0.8), killed("rekindle:passive_standby", 3.0)])  # fmt: skip
    assert aim("ActiveStandby / plain Spark", found) == (0.04, "met")
    assert aim("PassiveStandby / Flink, tuned", found) == (0.75, "missed by 0.05")
    assert aim("PassiveStandby / Flink, defaults", found) == (0.15, "missed by 0.03")


def test_without_both_sides_there_is_no_ratio() -> None:
    assert aims(figures([killed("rekindle:active_standby", 0.8), result("spark", "throughput", rows_per_s=1.0)])) == []


def test_changed_rows_are_shown_beside_plain_sparks() -> None:
    found = figures([killed("spark", 9.0, workload="nexmark_q12", verdict=Verdict(9, changed=2000)),
                     killed("rekindle", 3.0, workload="nexmark_q12", verdict=Verdict(9, changed=1))])  # fmt: skip
    assert aim("rows changed after recovery, rekindle (plain Spark: 2,000)", found) == (1, "missed by 1")


def test_a_median_of_nothing_is_none() -> None:
    assert median([None, None]) is None and median([None, 3.0, 1.0]) == 2.0
