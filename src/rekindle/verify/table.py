"""A report for people at a terminal: a table, example rows, and what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.recovery.policy import PRECISE
from rekindle.verify.report import Report

if TYPE_CHECKING:
    from rich.table import Table

SHOWN_MAX = 160


def table(report: Report) -> Table:
    """One row for each stream and each sink, over all runs."""
    from rich.table import Table
    from rich.text import Text

    found = Table(title=f"{report.pipeline}: {len(report.runs)} runs, {report.injected} faults, seed {report.seed}")
    for column in ("output", "recovery", "promised", "verdict"):
        found.add_column(column)
    for column in ("rows", "lost", "repeated", "changed", "longest pause"):
        found.add_column(column, justify="right")
    broken = {output.name for _, output, _ in report.broken}
    for output in report.outputs:
        verdict = report.verdict(output.name)
        style = "bold red" if output.name in broken else "green" if verdict == PRECISE else "yellow"
        note = " *" if output.name in report.unrepeatable else ""
        pauses = [p.length_s for run in report.runs if (p := run.course.pauses.get(output.name)) is not None]
        figures = [f"{report.total(output.name, what):,}" for what in ("rows", "lost", "repeated", "changed")]
        figures.append(f"{max(pauses):.1f} s" if pauses else "")
        name = f"{output.name} (sink)" if output.kind == "sink" else output.name
        found.add_row(name, output.policy, output.promised, Text(verdict + note, style=style), *figures)
    return found


def examples(report: Report) -> list[str]:
    """A few rows of each kind of damage, and the epochs that are missing."""
    lines = []
    for run in report.runs:
        for name, finding in run.findings.items():
            for gap in finding.gaps[:3]:
                what = "rows of input were dropped, on record" if gap.on_record else "rows are missing"
                lines.append(f"run {run.number}, {name}, epoch {gap.epoch}: {gap.rows:,} {what}")
            for example in finding.examples:
                lines.append(f"run {run.number}, {name}, epoch {example.epoch}, {example.what}:")
                if example.expected is not None and example.what != "repeated":
                    lines.append(f"    undisturbed  {example.expected[:SHOWN_MAX]}")
                if example.seen is not None:
                    lines.append(f"    received     {example.seen[:SHOWN_MAX]}")
    return lines


def conclusion(report: Report) -> list[str]:
    """What it comes to."""
    lines = []
    if report.unrepeatable:
        names = ", ".join(report.unrepeatable)
        lines.append(f"* {names}: two undisturbed runs differ already, so each run is compared with itself only")
    not_injected = [fault for fault in report.faults if not fault.happened]
    lines += [f"not injected: {fault.fault}: {fault.proof}" for fault in not_injected]
    lines += [f"run {run.number} did not come to its end: {run.failure}" for run in report.runs if run.failure]
    for number, output, finding in report.broken:
        lines.append(f"run {number}: {output.kind} {output.name} promises {output.promised}, and was {finding.verdict}")
    lines += [f"not deterministic: {finding}" for finding in report.nondeterminism]
    if not report.injected:
        lines.append("no fault happened, so nothing was verified")
    if report.holds:
        what = "every output was precise" if report.is_precise else "every output gave what it promises"
        lines.append(f"verdict: GOOD, {what} under {report.injected} faults")
    else:
        lines.append(f"verdict: BAD; the same faults again: --seed {report.seed}")
    return lines
