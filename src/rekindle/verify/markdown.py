"""The table of faults, policies and verdicts, written into a page between two marks.

A row is about one kind of fault. What was tried now replaces its rows, the others stay: so the table can be made in
parts. Under another pipeline, or other promises, it starts anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from rekindle.errors import DeclarationError
from rekindle.verify.faults import KINDS, MEANING
from rekindle.verify.report import Report, worst

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"


def put_table(report: Report, page: Path) -> None:
    """Update what stands between the marks of a page; a page that is not there yet is made."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise DeclarationError(
            "the page has no place for the table", detail=str(page), hint=f"put the lines {BEGIN} and {END} into it"
        )
    before, rest = text.split(BEGIN)
    old, after = rest.split(END)
    hidden = page.with_name(f".{page.name}.tmp")
    hidden.write_text(f"{before}{BEGIN}\n{markdown(report, old)}\n{END}{after}", encoding="utf-8")
    os.replace(hidden, page)


def markdown(report: Report, old: str = "") -> str:
    """One row for each kind of fault that came alone in a run, one column for each output; and the rows of ``old``."""
    heads = heads_of(report)
    lines = [line for line in old.splitlines() if line.startswith("|")]
    kept = lines[len(heads) :] if lines[: len(heads)] == heads else []
    rows = {kind: line for line in kept for kind in KINDS if line.startswith(f"| {kind}: ")}
    return "\n".join([*heads, *(line for _, line in sorted((rows | rows_of(report)).items(), key=_place))])


def heads_of(report: Report) -> list[str]:
    outputs = report.outputs
    names = [f"`{o.name}`<br>{'sink of ' if o.kind == 'sink' else ''}{o.policy}" for o in outputs]
    return [
        "| fault | injected | rows compared | " + " | ".join(names) + " |",
        "| --- | ---: | ---: |" + " --- |" * len(names),
        "| *promised* | | | " + " | ".join(f"*{o.promised}*" for o in outputs) + " |",
    ]


def rows_of(report: Report) -> dict[str, str]:
    """The rows of the table by the kind of fault."""
    found = {}
    for kind in {fault.fault.kind for fault in report.faults}:
        runs = [run for run in report.runs if {fault.fault.kind for fault in run.faults} == {kind}]
        injected = [fault for run in runs for fault in run.faults]
        if not injected:
            continue  # it never came alone
        happened = sum(fault.happened for fault in injected)
        name = f"{kind}: {MEANING[kind]}"
        if not happened:
            found[kind] = f"| {name} | 0 | | not injected: {injected[0].proof} |" + " |" * (len(report.outputs) - 1)
            continue
        cells = []
        for output in report.outputs:
            findings = [run.findings[output.name] for run in runs]
            lost = sum(finding.lost for finding in findings)
            verdict = worst([finding.verdict for finding in findings])
            cells.append(f"{verdict}, {lost:,} rows" if lost else verdict)
        compared = sum(finding.rows for run in runs for finding in run.findings.values())
        failed = "; ".join(run.failure for run in runs if run.failure)
        how_many = f"{happened}, but: {failed}" if failed else str(happened)
        found[kind] = f"| {name} | {how_many} | {compared:,} | " + " | ".join(cells) + " |"
    return found


def _place(row: tuple[str, str]) -> int:
    return KINDS.index(row[0])
