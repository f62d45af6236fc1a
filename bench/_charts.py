"""The suite's charts: throughput and latency as bars, output around a kill, and one line chart for each sweep."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from bench import _figures as f
from bench._figures import Figure
from bench._labels import LABELS
from bench._pauses import Pause
from bench._picture import INK, Row, panels, typical
from bench._runs import Result
from bench._sweeps import SWEEPS, points
from bench.peers import PEERS

COLOURS = {
    "spark": "#8a8a8a",
    "spark_tuned": "#5c5c5c",
    "flink": "#e0a458",
    "flink_tuned": "#c77d1e",
    "flink:job_manager": "#8f5a12",
    "rekindle": "#2f6fb0",
    "rekindle:memory": "#4aa3a2",
    "rekindle:rollback": "#2f6fb0",
    "rekindle:passive_standby": "#5b9bd5",
    "rekindle:active_standby": "#1b4470",
    "rekindle:upstream_backup": "#3a9a6b",
    "rekindle:source_replay": "#8e5ba6",
    "rekindle:pool": "#7fb3d5",
    "rekindle:gap": "#c0392b",
}
RATE_FACTOR = 2.5
BARS: tuple[tuple[str, Callable[[Figure], float | None], str], ...] = (
    (f.THROUGHPUT, lambda one: one.rows_per_s, "Throughput, rows/s, all input there at once"),
    (f.LATENCY, lambda one: one.p50_s, "Median latency at a pace, seconds (line: to p99)"),
)


def draw(results: Sequence[Result], found: Sequence[Figure], folder: Path, sweep: str | None) -> list[Path]:
    """All that there is something for; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []

    def into(name: str) -> Path:
        path = folder / f"benchmarks-{name}.png"
        made.append(path)
        return path

    if sweep is not None:
        _sweep(results, sweep, into(f"sweep-{sweep}"))
        return made
    for measure, value, title in BARS:
        mine = [figure for figure in found if figure.measure == measure and value(figure) is not None]
        if mine:
            _bars(mine, value, title, into(measure))
    workloads = list(dict.fromkeys(result.workload for result in results if result.pauses))
    for workload in workloads:
        _recovery([result for result in results if result.workload == workload], into(f"recovery-{workload}"))
    return made


def _bars(found: Sequence[Figure], value: Callable[[Figure], float | None], title: str, path: Path) -> None:
    """A panel for each workload, since their scales differ."""
    workloads = list(dict.fromkeys(figure.workload for figure in found))
    peers = [peer for peer in PEERS if any(figure.peer == peer for figure in found)]
    columns = min(3, len(workloads))
    lines = -(-len(workloads) // columns)
    figure, grid = plt.subplots(
        lines,
        columns,
        figsize=(1.8 + 4.0 * columns, 0.8 + lines * (0.6 + 0.32 * len(peers))),
        squeeze=False,
        layout="constrained",
    )
    for index, axes in enumerate(grid.flat):
        if index >= len(workloads):
            axes.set_visible(False)
            continue
        mine = {one.peer: one for one in found if one.workload == workloads[index]}
        for place, peer in enumerate(peers):
            if peer not in mine:
                continue
            length = value(mine[peer]) or 0.0
            late = mine[peer].p99_s
            axes.barh(place, length, color=COLOURS[peer], height=0.7)
            if late is not None:
                axes.plot([length, late], [place, place], color=INK, linewidth=1)
            text = f"{length:,.0f}" if length >= 100 else f"{length:.2f}"
            axes.text(max(length, late or 0.0), place, f" {text}", va="center", fontsize=8, color=INK)
        axes.set_yticks(range(len(peers)), [LABELS[peer] for peer in peers] if index % columns == 0 else [])
        axes.invert_yaxis()
        axes.margins(x=0.22)
        axes.set_title(workloads[index], fontsize=10, color=INK)
        axes.tick_params(labelsize=8, colors=INK, length=2)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.suptitle(title, fontsize=11, color=INK)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _recovery(results: Sequence[Result], path: Path) -> None:
    """The first kill of each run counts; of all rounds the one in the middle."""
    rows, rates = [], []
    for peer in PEERS:
        pauses = [first_pause(result) for result in results if result.peer == peer and result.pauses]
        chosen = typical(pauses)
        if chosen is not None:
            rows.append(Row(LABELS[peer], COLOURS[peer], [chosen]))
            rates += [count / chosen.interval_s for at_s, count in chosen.timeline if at_s < 0]
    rate_max = max(2.0, RATE_FACTOR * statistics.median(rates)) if rates else 2.0
    about = (
        f"{results[0].workload}: rows per second at the sink around a kill\nred: the longest pause; bars are cut off"
    )
    panels(rows, [""], about, _round(rate_max), path)


def first_pause(result: Result) -> Pause:
    said = result.pauses[0]
    return Pause(
        pause_s=said["pause_s"],
        interval_s=said["interval_s"],
        first_output_s=said["first_output_s"],
        redundant_s=said["redundant_s"],
        timeline=result.timeline,
    )


def _round(value: float) -> float:
    """Up to one digit: 7,342 is 8,000."""
    unit = 10.0 ** (len(str(int(value))) - 1)
    return -(-value // unit) * unit


def _sweep(results: Sequence[Result], sweep: str, path: Path) -> None:
    axis = SWEEPS[sweep]
    figure, grid = plt.subplots(1, 2, figsize=(11, 4.2), sharex=True, layout="constrained")
    for axes, value, title in zip(grid, ("pause_s", "caught_up_s"), ("longest pause", "until caught up"), strict=True):
        for peer in PEERS:
            line = points(results, sweep, peer, value)
            if not line:
                continue
            style = {"color": COLOURS[peer], "label": LABELS[peer]}
            if len(line) == 1 and peer in axis.unmoved:
                axes.axhline(line[0][1], linestyle="--", **style)
            else:
                axes.plot(*zip(*line, strict=True), marker="o", **style)
        axes.set_xscale("log")
        axes.set_xticks(axis.values, [f"{value:,g}" for value in axis.values])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel(axis.label, fontsize=9, color=INK)
        axes.set_ylabel(f"{title}, seconds", fontsize=9, color=INK)
        axes.tick_params(labelsize=8, colors=INK)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    grid[1].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle(f"Word count: recovery against {axis.about}", fontsize=11, color=INK)
    figure.savefig(path, dpi=120)
    plt.close(figure)
