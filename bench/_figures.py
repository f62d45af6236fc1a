"""From runs to figures, and from figures to ratios and goals. Nothing here measures anything."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench._pauses import Goal
from bench._runs import Result
from bench.peers import FLINK, FLINK_TUNED, MEMORY, PEERS, REKINDLE, SPARK, SPARK_TUNED

ACTIVE, PASSIVE = f"{REKINDLE}:active_standby", f"{REKINDLE}:passive_standby"
THROUGHPUT, LATENCY, RECOVERY = MEASURES = ("throughput", "latency", "recovery")
STABLE = "nexmark_q12"
"""The workload whose rows depend on when they are computed."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What a peer comes to with a workload, in one measure, over all rounds: medians, but for what is counted (rows),
    and for what is a maximum. Runs that failed are counted only."""

    workload: str
    peer: str
    measure: str
    runs: int
    failed: int
    outcomes: tuple[str, ...]
    rows_per_s: float | None
    cpu_s_per_million: float | None
    peak_bytes: float | None
    recovery_bytes: float | None
    p50_s: float | None
    p99_s: float | None
    max_s: float | None
    kills: int
    pause_s: float | None
    worst_pause_s: float | None
    caught_up_s: float | None
    lost: int
    duplicated: int
    changed: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Aim:
    """A ratio, or a count, with its goal."""

    what: str
    goal: Goal

    @property
    def verdict(self) -> str:
        if self.goal.met:
            return "met"
        return f"missed by {abs(self.goal.value - self.goal.limit):.2g}"


def figures(results: Sequence[Result]) -> list[Figure]:
    """By workload and measure in the order they come, then in the order of PEERS."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.workload, result.measure, result.peer), []).append(result)
    order = list(dict.fromkeys((workload, measure) for workload, measure, _ in groups))
    return [
        _figure(workload, peer, measure, groups[workload, measure, peer])
        for workload, measure in order
        for peer in PEERS
        if (workload, measure, peer) in groups
    ]


def _figure(workload: str, peer: str, measure: str, results: Sequence[Result]) -> Figure:
    good = [result for result in results if not result.failed]
    verdicts = [result.verdict for result in good if result.verdict is not None]
    pauses = [pause for result in good for pause in result.pauses]
    lengths = [float(pause["pause_s"]) for pause in pauses]

    def of(value: Callable[[Result], float | None]) -> float | None:
        return median(value(result) for result in good)

    return Figure(
        workload=workload,
        peer=peer,
        measure=measure,
        runs=len(results),
        failed=len(results) - len(good),
        outcomes=tuple(dict.fromkeys(result.outcome.splitlines()[0] for result in results)),
        rows_per_s=of(lambda result: result.rows_per_s),
        cpu_s_per_million=of(_cpu_s_per_million),
        peak_bytes=of(lambda result: result.peak_bytes),
        recovery_bytes=of(lambda result: sum(result.recovery_bytes.values()) or None),
        p50_s=of(lambda result: result.latency_s.get("p50")),
        p99_s=of(lambda result: result.latency_s.get("p99")),
        max_s=max((result.latency_s["max"] for result in good if "max" in result.latency_s), default=None),
        kills=len(pauses),
        pause_s=median(lengths),
        worst_pause_s=max(lengths, default=None),
        caught_up_s=median(pause["caught_up_s"] for pause in pauses),
        lost=sum(verdict.lost for verdict in verdicts),
        duplicated=sum(verdict.duplicated for verdict in verdicts),
        changed=sum(verdict.changed for verdict in verdicts),
        wrong=sum(verdict.wrong for verdict in verdicts),
    )


def aims(found: Sequence[Figure]) -> list[Aim]:
    """Every goal of which both sides were measured."""
    by = {(figure.workload, figure.measure, figure.peer): figure for figure in found}
    workloads = list(dict.fromkeys(figure.workload for figure in found))
    listed: list[Aim | None] = []

    def ratio(
        workload: str, measure: str, peers: tuple[str, str], value: Callable[[Figure], float | None]
    ) -> float | None:
        ours, theirs = (by.get((workload, measure, peer)) for peer in peers)
        above, below = (value(figure) if figure is not None else None for figure in (ours, theirs))
        return above / below if above is not None and below else None

    for workload in workloads:
        if workload == "wordcount" or workload.startswith("nexmark"):
            for ours, how in ((REKINDLE, ""), (MEMORY, ", state in memory")):
                rate = ratio(workload, THROUGHPUT, (ours, SPARK_TUNED), lambda figure: figure.rows_per_s)
                listed.append(_aim(f"{workload}: throughput / plain Spark, tuned{how}", rate, 0.95, at_least=True))
    for workload in workloads:
        late = ratio(workload, LATENCY, (REKINDLE, SPARK), lambda figure: figure.p50_s)
        listed.append(_aim(f"{workload}: median latency / plain Spark, defaults", late, 1.0))
    for workload in workloads:
        for ours, theirs, limit, what in (
            (ACTIVE, SPARK, 0.05, "longest pause, ActiveStandby / plain Spark, restarted"),
            (PASSIVE, FLINK_TUNED, 0.7, "longest pause, PassiveStandby / Flink, tuned heartbeats"),
            (PASSIVE, FLINK, 0.12, "longest pause, PassiveStandby / Flink, defaults"),
        ):
            pause = ratio(workload, RECOVERY, (ours, theirs), lambda figure: figure.pause_s)
            listed.append(_aim(f"{workload}: {what}", pause, limit))
    listed += _changed(found)
    return [aim for aim in listed if aim is not None]


def _changed(found: Iterable[Figure]) -> list[Aim]:
    """Rows changed after recovery on the workload that is made to show them."""
    mine = [figure for figure in found if (figure.workload, figure.measure) == (STABLE, RECOVERY)]
    by_spark = sum(figure.changed for figure in mine if figure.peer in (SPARK, SPARK_TUNED))
    return [
        Aim(f"{STABLE}: rows changed after recovery, {figure.peer} (plain Spark: {by_spark:,})",
            Goal(figure.changed, 0))
        for figure in mine
        if figure.peer.startswith(REKINDLE)
    ]  # fmt: skip


def _aim(what: str, value: float | None, limit: float, *, at_least: bool = False) -> Aim | None:
    return None if value is None else Aim(what, Goal(value, limit, at_least))


def _cpu_s_per_million(result: Result) -> float | None:
    if result.cpu_s is None or not result.cpu_rows:
        return None
    return result.cpu_s / result.cpu_rows * 1e6


def median(values: Iterable[float | None]) -> float | None:
    """Of those that are there; None of none."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
