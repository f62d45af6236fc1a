"""The table of faults, policies and verdicts, written into a page between two marks."""

from __future__ import annotations

from pathlib import Path

from rekindle.errors import DeclarationError
from rekindle.verify.faults import MEANING
from rekindle.verify.report import Report, worst

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"


def put_table(report: Report, page: Path) -> None:
    """Replace what stands between the marks of a page; a page that is not there yet is made."""
    made = f"{BEGIN}\n{markdown(report)}\n{END}"
    if not page.exists():
        page.write_text(made + "\n", encoding="utf-8")
        return
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise DeclarationError(
            "the page has no place for the table", detail=str(page), hint=f"put the lines {BEGIN} and {END} into it"
        )
    page.write_text(text[: text.index(BEGIN)] + made + text[text.index(END) + len(END) :], encoding="utf-8")


def markdown(report: Report) -> str:
    """One row for each kind of fault that came alone in a run, one column for each output."""
    heads = [f"`{o.name}`<br>{'sink of ' if o.kind == 'sink' else ''}{o.policy}" for o in report.outputs]
    lines = [
        "| fault | injected | " + " | ".join(heads) + " |",
        "| --- | --- |" + " --- |" * len(heads),
        "| *promised* | | " + " | ".join(f"*{o.promised}*" for o in report.outputs) + " |",
    ]
    kinds = dict.fromkeys(fault.fault.kind for fault in report.faults)
    for kind in kinds:
        runs = [run for run in report.runs if {fault.fault.kind for fault in run.faults} == {kind}]
        if not runs:
            continue
        injected = [fault for run in runs for fault in run.faults]
        happened = sum(fault.happened for fault in injected)
        name = f"{kind}: {MEANING[kind]}"
        if not happened:
            lines.append(f"| {name} | no: {injected[0].proof} |" + " |" * len(heads))
            continue
        cells = []
        for output in report.outputs:
            found = [run.findings[output.name] for run in runs if output.name in run.findings]
            verdict = worst([finding.verdict for finding in found])
            rows = sum(gap.rows for finding in found for gap in finding.gaps)
            cells.append(f"{verdict}, {rows:,} rows" if rows else verdict)
        failed = "; ".join(run.failure for run in runs if run.failure)
        lines.append(f"| {name} | {happened}{f' ({failed})' if failed else ''} | " + " | ".join(cells) + " |")
    rows = sum(report.total(o.name, "rows") for o in report.outputs)
    lines += [
        "",
        f"{len(report.runs)} runs, {report.injected} faults, seed {report.seed}; {rows:,} rows were compared with "
        "those of the undisturbed run.",
    ]
    return "\n".join(lines)
