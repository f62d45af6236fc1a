"""What the suite prints: tables, ratios, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench import _figures as f
from bench._charts import draw
from bench._figures import Aim, Figure
from bench._labels import LABELS
from bench._options import Options
from bench._page import page
from bench._pauses import as_markdown, as_text
from bench._runs import Result
from bench._sweeps import SWEEPS, points
from bench.peers import PEERS

Table = list[tuple[str, ...]]


def show(report: Mapping[str, Any], options: Options) -> int:
    """Print all, draw the charts, write the page; 1 if a run failed or its output was wrong, else 0."""
    results = [Result.from_json(said) for said in report["runs"]]
    found = f.figures(results)
    sweep = report["settings"]["sweep"]
    shown = [(f"Word count: recovery against {SWEEPS[sweep].about}", swept(results, sweep))] if sweep else tables(found)
    reached = f.aims(found) if sweep is None else []
    if reached:
        shown.insert(0, ("Ratios and goals", goals(reached)))
    render = as_markdown if options.markdown else as_text
    for title, table in shown:
        print(f"### {title}\n" if options.markdown else title)
        print(render(table), end="\n\n")
    bad = [f"{result.workload}, {result.measure}, round {result.round}, {result.peer}: {result.outcome}"
           for result in results if not tolerable(result)]  # fmt: skip
    print("\n".join(bad), end="\n" if bad else "", flush=True)
    charts = draw(results, found, options.png, sweep)
    options.html.write_text(page(report, shown, charts, bad))
    return 1 if bad else 0


def tolerable(result: Result) -> bool:
    """Whether a run did what it should. A plain peer that changes rows is a finding; Rekindle must never."""
    ours = result.peer.startswith("rekindle")
    changed = result.verdict is not None and result.verdict.changed > 0
    return result.is_sound and not (ours and changed)


def tables(found: Sequence[Figure]) -> list[tuple[str, Table]]:
    """One for each measure, with all workloads in it."""
    made: list[tuple[str, Table]] = []
    for measure, title, head, row in (
        (f.THROUGHPUT, "Throughput, all input there at once", THROUGHPUT_HEAD, _throughput),
        (f.LATENCY, "Latency at a pace", LATENCY_HEAD, _latency),
        (f.RECOVERY, "Recovery after SIGKILL, at a pace", RECOVERY_HEAD, _recovery),
    ):
        mine = [figure for figure in found if figure.measure == measure]
        if mine:
            made.append((title, [head, *(row(figure, _beside(figure, mine)) for figure in mine)]))
    return made


def goals(reached: Sequence[Aim]) -> Table:
    rows: Table = [("what", "ratio", "goal", "")]
    for aim in reached:
        least = "at least" if aim.goal.at_least else "at most"
        rows.append((aim.what, _number(aim.goal.value), f"{least} {aim.goal.limit:g}", aim.verdict))
    return rows


def swept(results: Sequence[Result], sweep: str) -> Table:
    """Longest pause and time to catch up, by what varies; the median of the kills."""
    axis = SWEEPS[sweep]
    head = ("peer", "", *(f"{value:,g}" for value in axis.values))
    rows: Table = [(axis.label, *head[1:])]
    for peer in PEERS:
        for value, name in (("pause_s", "longest pause"), ("caught_up_s", "caught up after")):
            line = dict(points(results, sweep, peer, value))
            if line:
                rows.append((LABELS[peer], name, *(_s(line.get(at)) for at in axis.values)))
    return rows


THROUGHPUT_HEAD = ("workload", "peer", "rows/s", "/ plain, tuned", "CPU s / million rows", "peak memory",
                   "recovery data", "output")  # fmt: skip
LATENCY_HEAD = ("workload", "peer", "p50", "/ plain, defaults", "p99", "max", "CPU s / million rows", "peak memory",
                "output")  # fmt: skip
RECOVERY_HEAD = ("workload", "peer", "kills", "longest pause", "/ plain, defaults", "worst", "caught up after", "lost",
                 "duplicated", "wrong", "changed", "recovery data", "output")  # fmt: skip


def _throughput(figure: Figure, beside: Mapping[str, Figure]) -> tuple[str, ...]:
    return (
        figure.workload,
        LABELS[figure.peer],
        _whole(figure.rows_per_s),
        _share(figure, beside.get("spark_tuned"), lambda one: one.rows_per_s),
        _number(figure.cpu_s_per_million),
        _mib(figure.peak_bytes),
        _mib(figure.recovery_bytes),
        _outcome(figure),
    )


def _latency(figure: Figure, beside: Mapping[str, Figure]) -> tuple[str, ...]:
    return (
        figure.workload,
        LABELS[figure.peer],
        _ms(figure.p50_s),
        _share(figure, beside.get("spark"), lambda one: one.p50_s),
        _ms(figure.p99_s),
        _ms(figure.max_s),
        _number(figure.cpu_s_per_million),
        _mib(figure.peak_bytes),
        _outcome(figure),
    )


def _recovery(figure: Figure, beside: Mapping[str, Figure]) -> tuple[str, ...]:
    return (
        figure.workload,
        LABELS[figure.peer],
        str(figure.kills),
        _s(figure.pause_s),
        _share(figure, beside.get("spark"), lambda one: one.pause_s),
        _s(figure.worst_pause_s),
        _s(figure.caught_up_s),
        f"{figure.lost:,}",
        f"{figure.duplicated:,}",
        f"{figure.wrong:,}",
        f"{figure.changed:,}",
        _mib(figure.recovery_bytes),
        _outcome(figure),
    )


def _beside(figure: Figure, found: Sequence[Figure]) -> dict[str, Figure]:
    """Who ran the same, by peer."""
    return {other.peer: other for other in found if other.workload == figure.workload}


def _share(figure: Figure, other: Figure | None, value: Callable[[Figure], float | None]) -> str:
    if other is None or other is figure:
        return ""
    above, below = value(figure), value(other)
    return "" if above is None or not below else _number(above / below)


def _outcome(figure: Figure) -> str:
    if figure.failed:
        return f"{figure.failed} of {figure.runs} runs failed"
    exact = all(outcome.startswith("exact") for outcome in figure.outcomes)
    return "exact" if exact else "; ".join(figure.outcomes)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}"


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _s(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value * 1000:,.0f} ms"


def _mib(value: float | None) -> str:
    return "" if value is None else f"{value / 2**20:,.1f} MiB"
