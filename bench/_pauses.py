"""From outputs and kills to pauses, from pauses to figures, goals and tables. Nothing here measures anything."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

PLAIN, ROLLBACK, GAP, UPSTREAM, PASSIVE, ACTIVE, POOL = PEERS = (
    "plain",
    "rollback",
    "gap",
    "upstream_backup",
    "passive_standby",
    "active_standby",
    "pool",
)
LABELS = {
    PLAIN: "plain Spark, restarted at once",
    ROLLBACK: "Rollback()",
    GAP: "Gap()",
    UPSTREAM: "UpstreamBackup()",
    PASSIVE: "PassiveStandby(interval=1)",
    ACTIVE: "ActiveStandby(replicas=2)",
    POOL: "Rollback(), pool=1",
}
SHARE_MAX = {ACTIVE: 0.06, PASSIVE: 0.15, POOL: 0.35, ROLLBACK: 1.0}
OWN_EPOCHS_MAX = 2.0
BACKUP_MIN = 0.9
GROWTH_MAX = 1.5


@dataclass(frozen=True, slots=True)
class Output:
    """An epoch, or a batch, that became visible at the sink."""

    at_s: float
    rows: int


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, seconds since 1970: output was steady from ``steady_from_s`` to ``at_s``; at ``redundant_at_s`` all
    that the policy wants was there again, and at ``until_s`` output had been steady for a while after that."""

    at_s: float
    steady_from_s: float
    redundant_at_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """What a kill did to the output. Seconds; ``timeline`` and ``events`` count from the kill."""

    pause_s: float
    interval_s: float
    first_output_s: float
    redundant_s: float
    timeline: tuple[tuple[float, int], ...] = ()
    events: tuple[tuple[float, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One peer, from its start to the last row. ``failed`` says why it has no pauses, ``outcome`` whether what came out
    is right: "exact", "at most", or what is wrong."""

    peer: str
    keys: int
    round: int
    rows: int = 0
    outcome: str = ""
    failed: str = ""
    pauses: tuple[Pause, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.failed and self.outcome.startswith(("exact", "at most"))

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Run:
        def pause(said: Mapping[str, Any]) -> Pause:
            timeline = tuple((float(at), int(rows)) for at, rows in said["timeline"])
            events = tuple((float(at), str(kind), str(subject)) for at, kind, subject in said["events"])
            return Pause(**{**said, "timeline": timeline, "events": events})

        return Run(**{**value, "pauses": tuple(pause(said) for said in value["pauses"])})


@dataclass(frozen=True, slots=True)
class Goal:
    """``value`` must be at most (or at least) ``limit``."""

    value: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g}, {'met' if self.met else 'MISSED'}"


@dataclass(frozen=True, slots=True)
class Figure:
    """What one peer with so many keys comes to, over all its kills. The longest pause of each kill counts: the median
    of them is compared, ``worst_s`` is the longest of all."""

    peer: str
    keys: int
    kills: int
    median_s: float
    worst_s: float
    interval_s: float
    own_epochs: float  # the median of pause / epoch interval before
    redundant_s: float
    share: float | None  # of plain Spark's median, with as many keys
    worst_share: float | None
    outcomes: tuple[str, ...]
    share_goal: Goal | None = None
    epochs_goal: Goal | None = None


# -- from outputs to pauses ------------------------------------------------------------------------------


def with_rows(outputs: Iterable[Output]) -> list[Output]:
    """Those that have rows, in order of time: an epoch without rows tells nobody anything."""
    return sorted((o for o in outputs if o.rows), key=lambda o: o.at_s)


def longest_pause(outputs: Sequence[Output], kill_s: float, until_s: float) -> float:
    """The longest stretch without new output that ends after the kill and at ``until_s`` at the latest."""
    times = [o.at_s for o in with_rows(outputs)]
    gaps = [b - a for a, b in pairwise(times) if kill_s < b <= until_s]
    if not gaps or times[0] > kill_s:
        raise ValueError("there is no output before the kill, or none after it")
    return max(gaps)


def epoch_interval(outputs: Sequence[Output], after_s: float, until_s: float) -> float:
    """The median time from one output to the next."""
    times = [o.at_s for o in with_rows(outputs) if after_s <= o.at_s <= until_s]
    if len(times) < 2:
        raise ValueError("an interval needs two outputs")
    return statistics.median(b - a for a, b in pairwise(times))


def pause_of(outputs: Sequence[Output], kill: Kill, events: Iterable[tuple[float, str, str]] = ()) -> Pause:
    shown = [o for o in with_rows(outputs) if kill.steady_from_s <= o.at_s <= kill.until_s]
    return Pause(
        pause_s=longest_pause(outputs, kill.at_s, kill.until_s),
        interval_s=epoch_interval(outputs, kill.steady_from_s, kill.at_s),
        first_output_s=min(o.at_s for o in shown if o.at_s > kill.at_s) - kill.at_s,
        redundant_s=kill.redundant_at_s - kill.at_s,
        timeline=tuple((round(o.at_s - kill.at_s, 3), o.rows) for o in shown),
        events=tuple(
            (round(at_s - kill.at_s, 3), kind, subject)
            for at_s, kind, subject in events
            if kill.at_s - 1.0 <= at_s <= kill.until_s
        ),
    )


# -- from pauses to figures ------------------------------------------------------------------------------


def figures(runs: Sequence[Run]) -> list[Figure]:
    """By keys, then in the order of PEERS; peers of which every run failed are left out."""
    found: list[Figure] = []
    for keys in sorted({run.keys for run in runs}):
        plain: Figure | None = None
        for peer in PEERS:
            mine = [run for run in runs if (run.peer, run.keys) == (peer, keys)]
            figure = _figure(peer, keys, mine, plain)
            if figure is not None:
                found.append(figure)
                plain = figure if peer == PLAIN else plain
    return found


def _figure(peer: str, keys: int, runs: Sequence[Run], plain: Figure | None) -> Figure | None:
    pauses = [pause for run in runs for pause in run.pauses]
    if not pauses:
        return None
    median_s = statistics.median(p.pause_s for p in pauses)
    worst_s = max(p.pause_s for p in pauses)
    own_epochs = statistics.median(p.pause_s / p.interval_s for p in pauses)
    share = median_s / plain.median_s if plain is not None else None
    return Figure(
        peer=peer,
        keys=keys,
        kills=len(pauses),
        median_s=median_s,
        worst_s=worst_s,
        interval_s=statistics.median(p.interval_s for p in pauses),
        own_epochs=own_epochs,
        redundant_s=statistics.median(p.redundant_s for p in pauses),
        share=share,
        worst_share=worst_s / plain.worst_s if plain is not None else None,
        outcomes=tuple(sorted({run.failed or run.outcome for run in runs})),
        share_goal=Goal(share, SHARE_MAX[peer]) if share is not None and peer in SHARE_MAX else None,
        epochs_goal=Goal(own_epochs, OWN_EPOCHS_MAX) if peer == ACTIVE else None,
    )


def growth(found: Iterable[Figure]) -> dict[str, Goal]:
    """By peer that was measured with several state sizes: its longest median pause over its shortest."""
    by_peer: dict[str, list[float]] = {}
    for figure in found:
        by_peer.setdefault(figure.peer, []).append(figure.median_s)
    return {
        peer: Goal(max(medians) / min(medians), GROWTH_MAX) for peer, medians in by_peer.items() if len(medians) > 1
    }


def backup_ratio(on: Sequence[float], off: Sequence[float]) -> Goal:
    """Throughput with backup over throughput without."""
    return Goal(statistics.median(on) / statistics.median(off), BACKUP_MIN, at_least=True)


# -- from figures to tables ------------------------------------------------------------------------------

HEAD = ("keys", "policy", "kills", "longest pause", "worst", "/ plain Spark's", "its epoch", "pause / epoch", "output")


def table(found: Iterable[Figure]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [HEAD]
    for f in found:
        share = "" if f.share is None or f.peer == PLAIN else f"{f.share:.3f}"
        rows.append(
            (
                f"{f.keys:,}",
                LABELS[f.peer],
                str(f.kills),
                f"{f.median_s:.2f} s",
                f"{f.worst_s:.2f} s",
                share + (f" ({f.share_goal})" if f.share_goal else ""),
                f"{f.interval_s:.2f} s",
                f"{f.own_epochs:.1f}" + (f" ({f.epochs_goal})" if f.epochs_goal else ""),
                "; ".join(f.outcomes),
            )
        )
    return rows


def ratios(named: Mapping[str, Goal]) -> list[tuple[str, ...]]:
    return [("what", "ratio", "goal"), *((name, f"{goal.value:.2f}", str(goal)) for name, goal in named.items())]


def as_text(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


def to_json(figure: Figure) -> dict[str, Any]:
    said = asdict(figure)
    for name, goal in (("share_goal", figure.share_goal), ("epochs_goal", figure.epochs_goal)):
        said[name] = {**asdict(goal), "met": goal.met} if goal is not None else None
    return said
