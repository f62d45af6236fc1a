"""The picture of bench/failover.py: the output rate of each peer around a kill, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
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


def draw(runs: Sequence[Run], path: Path) -> None:
    """One column for each number of keys, one row for each peer; of its kills the one with the median pause."""
    chosen = {
        (peer, keys): pause
        for peer in PEERS
        for keys in sorted({run.keys for run in runs})
        if (pause := typical([p for run in runs if (run.peer, run.keys) == (peer, keys) for p in run.pauses]))
    }
    if not chosen:
        return
    peers = [peer for peer in PEERS if any(name == peer for name, _ in chosen)]
    sizes = sorted({keys for _, keys in chosen})
    after_s = max(AFTER_S_MIN, *(longest_gap(pause)[1] + 4.0 for pause in chosen.values()))
    figure, grid = plt.subplots(
        len(peers),
        len(sizes),
        figsize=(2.2 + 6.2 * len(sizes), 1.6 + 1.05 * len(peers)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row, peer in enumerate(peers):
        for column, keys in enumerate(sizes):
            axes = grid[row][column]
            axes.set_xlim(-BEFORE_S, after_s)
            axes.set_ylim(0, RATE_MAX)
            _frame(axes, first=column == 0)
            if (peer, keys) in chosen:
                _peer(axes, chosen[peer, keys], plain=peer == PLAIN, until_s=after_s)
            else:
                axes.text(0.5, 0.5, "not run with this state", transform=axes.transAxes, color=GREY, ha="center")
            if row == 0:
                axes.set_title(f"{keys:,} keys", fontsize=11, color=INK, pad=8)
            if column == 0:
                label = LABELS[peer].replace(", ", ",\n")
                axes.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=42, fontsize=10, color=INK)
        for axes in grid[-1]:
            axes.set_xlabel("seconds after SIGKILL of the driver and its JVM", fontsize=9, color=INK)
    figure.suptitle(
        "Rows per second at the sink, while 10,000 rows per second come in: a count and sum by key, in update mode\n"
        "red: the longest pause of a typical kill; bars are cut off at 20k; grey background: not measured",
        fontsize=11,
        color=INK,
    )
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


def _peer(axes: Axes, pause: Pause, *, plain: bool, until_s: float) -> None:
    began_s, ended_s = longest_gap(pause)
    axes.axvspan(began_s, ended_s, color=RED, alpha=0.10, linewidth=0)
    if pause.timeline[-1][0] < until_s:
        axes.axvspan(pause.timeline[-1][0], until_s, color="#f3f3f3", linewidth=0)
    for left, width, rate in bars(pause):
        axes.bar(left, min(rate, RATE_MAX), width, align="edge", color=GREY if plain else BLUE, linewidth=0)
    axes.axvline(0, color=RED, linewidth=1.2)
    wide = ended_s - began_s >= LABEL_S
    axes.text(
        (max(began_s, 0) + ended_s) / 2 if wide else ended_s + 1.8,
        RATE_MAX * 0.84,
        f"{pause.pause_s:.1f} s without output",
        ha="center" if wide else "left",
        va="center",
        fontsize=9,
        color=RED,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5, "alpha": 0.9},
    )


def _frame(axes: Axes, *, first: bool) -> None:
    axes.set_yticks([0, 10_000, 20_000], ["0", "10k", "20k"])
    axes.tick_params(labelsize=8, colors=INK, length=2.5)
    axes.tick_params(axis="y", labelleft=first)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#bbbbbb")
