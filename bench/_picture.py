"""The output rate of each peer around a kill, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench._pauses import LABELS, PEERS, PLAIN, Pause, Run

BEFORE_S = 5.0
AFTER_S_MIN = 15.0
LABEL_S = 7.0
SOON = 1.5
RATE_MAX = 20_000
INK, GREY, BLUE, RED = "#222222", "#8a8a8a", "#2f6fb0", "#c0392b"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of panels: its label, its colour, and a pause for each column (None: not run)."""

    label: str
    colour: str
    pauses: Sequence[Pause | None]


def draw(runs: Sequence[Run], path: Path) -> None:
    """One column for each number of keys, one row for each peer; of its kills the one with the median pause."""
    sizes = sorted({run.keys for run in runs})
    rows = []
    for peer in PEERS:
        mine = [[p for run in runs if (run.peer, run.keys) == (peer, keys) for p in run.pauses] for keys in sizes]
        rows.append(Row(LABELS[peer], GREY if peer == PLAIN else BLUE, [typical(pauses) for pauses in mine]))
    kept = [index for index in range(len(sizes)) if any(row.pauses[index] for row in rows)]
    panels(
        [Row(row.label, row.colour, [row.pauses[index] for index in kept]) for row in rows if any(row.pauses)],
        [f"{sizes[index]:,} keys" for index in kept],
        "Rows per second at the sink, while 10,000 rows per second come in: a count and sum by key, in update mode\n"
        "red: the longest pause of a typical kill; bars are cut off at 20k; grey background: not measured",
        RATE_MAX,
        path,
    )


def panels(rows: Sequence[Row], titles: Sequence[str], about: str, rate_max: float, path: Path) -> None:
    """The output rate around a kill, in a grid; nothing if there are no rows."""
    if not rows:
        return
    shown = [pause for row in rows for pause in row.pauses if pause is not None]
    after_s = max(AFTER_S_MIN, *(longest_gap(pause)[1] + 4.0 for pause in shown))
    figure, grid = plt.subplots(
        len(rows),
        len(titles),
        figsize=(2.2 + 6.2 * len(titles), 1.6 + 1.05 * len(rows)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for index, row in enumerate(rows):
        for column, pause in enumerate(row.pauses):
            axes = grid[index][column]
            axes.set_xlim(-BEFORE_S, after_s)
            axes.set_ylim(0, rate_max)
            _frame(axes, rate_max, first=column == 0)
            if pause is not None:
                _peer(axes, pause, row.colour, rate_max, until_s=after_s)
            else:
                axes.text(0.5, 0.5, "not run with this", transform=axes.transAxes, color=GREY, ha="center")
            if index == 0:
                axes.set_title(titles[column], fontsize=11, color=INK, pad=8)
            if column == 0:
                label = row.label.replace(", ", ",\n")
                axes.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=42, fontsize=10, color=INK)
    for axes in grid[-1]:
        axes.set_xlabel("seconds after SIGKILL", fontsize=9, color=INK)
    figure.suptitle(about, fontsize=11, color=INK)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def typical(pauses: Sequence[Pause]) -> Pause | None:
    """The one in the middle, by length."""
    return sorted(pauses, key=lambda p: p.pause_s)[(len(pauses) - 1) // 2] if pauses else None


def longest_gap(pause: Pause) -> tuple[float, float]:
    """Where the longest pause after the kill began and ended."""
    times = [at_s for at_s, _ in pause.timeline]
    return max(((a, b) for a, b in pairwise(times) if b > 0), key=lambda gap: gap[1] - gap[0])


def bars(pause: Pause) -> list[tuple[float, float, float]]:
    """Left, width and rate of each output: its rows over the time to the next one, or over one epoch interval where
    the next one does not follow soon."""
    found = []
    for (at_s, rows), (next_s, _) in pairwise(pause.timeline):
        gap_s = next_s - at_s
        width_s = gap_s if gap_s <= SOON * pause.interval_s else pause.interval_s
        found.append((at_s, width_s, rows / width_s))
    return found


def _peer(axes: Axes, pause: Pause, colour: str, rate_max: float, *, until_s: float) -> None:
    began_s, ended_s = longest_gap(pause)
    axes.axvspan(began_s, ended_s, color=RED, alpha=0.10, linewidth=0)
    if pause.timeline[-1][0] < until_s:
        axes.axvspan(pause.timeline[-1][0], until_s, color="#f3f3f3", linewidth=0)
    for left, width, rate in bars(pause):
        axes.bar(left, min(rate, rate_max), width, align="edge", color=colour, linewidth=0)
    axes.axvline(0, color=RED, linewidth=1.2)
    wide = ended_s - began_s >= LABEL_S
    axes.text(
        (max(began_s, 0) + ended_s) / 2 if wide else ended_s + 1.8,
        rate_max * 0.84,
        f"{pause.pause_s:.1f} s without output",
        ha="center" if wide else "left",
        va="center",
        fontsize=9,
        color=RED,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.9},
    )


def _frame(axes: Axes, rate_max: float, *, first: bool) -> None:
    axes.set_yticks([0, rate_max / 2, rate_max], ["0", f"{rate_max / 2000:g}k", f"{rate_max / 1000:g}k"])
    axes.tick_params(labelsize=8, colors=INK, length=2.5)
    axes.tick_params(axis="y", labelleft=first)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#bbbbbb")
