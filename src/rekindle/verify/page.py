"""A report as one HTML page: nothing is loaded from elsewhere.

Of each run a timeline: one lane for each output, a tick whenever something of it arrived, its longest pause shaded, and
every fault as a band from when it was brought about to when it was over.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rekindle.recovery.policy import PRECISE
from rekindle.verify.report import Output, Report, RunReport
from rekindle.verify.table import conclusion, examples

WIDTH, LEFT, LANE, TOP, RIGHT = 1080, 190, 24, 26, 30
TICKS_MAX = 1200

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #fff; max-width: 1120px; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #d9dee5; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: #146c2e; } .odd { color: #8a5a00; } .bad { color: #b3261e; font-weight: 600; }
pre { background: #f4f6f8; padding: .8rem; overflow-x: auto; font-size: 13px; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: #1c2430; }
.lane { stroke: #e4e8ed; } .tick { stroke: #1f6feb; stroke-width: 1.4; }
.pause { fill: #ffb703; opacity: .35; } .fault { fill: #b3261e; opacity: .22; } .missed { fill: #8b949e; opacity: .25; }
"""


def page(report: Report) -> str:
    """The whole page."""
    verdict = '<span class="good">GOOD</span>' if report.holds else '<span class="bad">BAD</span>'
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>rekindle verify: {escape(report.pipeline)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(report.pipeline)}: {verdict}</h1>",
        f"<p>{escape(report.file)}, {len(report.runs)} runs, {report.injected} faults, seed {report.seed}</p>",
        "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in conclusion(report)) + "</ul>",
        _table(report),
        *(_run(report, run) for run in (report.undisturbed, *report.runs)),
    ]
    rows = examples(report)
    if rows:
        parts.append(f"<h2>Example rows</h2><pre>{escape(chr(10).join(rows))}</pre>")
    return "\n".join([*parts, "</body></html>\n"])


def _table(report: Report) -> str:
    broken = {output.name for _, output, _ in report.broken}
    heads = ("output", "recovery", "promised", "verdict")
    figures = ("rows", "lost", "repeated", "changed")
    titles = "".join(f"<th>{head}</th>" for head in heads) + "".join(f'<th class="n">{f}</th>' for f in figures)
    lines = [f"<table><tr>{titles}</tr>"]
    for output in report.outputs:
        verdict = report.verdict(output.name)
        style = "bad" if output.name in broken else "good" if verdict == PRECISE else "odd"
        cells = [escape(_named(output)), escape(output.policy), escape(output.promised)]
        numbers = "".join(f'<td class="n">{report.total(output.name, what):,}</td>' for what in figures)
        lines.append(
            "<tr>"
            + "".join(f"<td>{c}</td>" for c in cells)
            + f'<td class="{style}">{escape(verdict)}</td>{numbers}</tr>'
        )
    return "\n".join([*lines, "</table>"])


def _run(report: Report, run: RunReport) -> str:
    title = f"Run {run.number}" if run.number else "Undisturbed"
    lines = [f"<h2>{title}, {run.course.seconds:.0f} s</h2>"]
    if run.failure:
        lines.append(f'<p class="bad">It did not come to its end: {escape(run.failure)}</p>')
    if run.faults:
        lines.append("<table><tr><th>fault</th><th>when</th><th>what came of it</th></tr>")
        for fault in run.faults:
            when = f"{fault.since_s:.1f} s to {fault.until_s:.1f} s" if fault.happened else "not injected"
            lines.append(f"<tr><td>{escape(str(fault.fault))}</td><td>{when}</td><td>{escape(fault.proof)}</td></tr>")
        lines.append("</table>")
    return "\n".join([*lines, timeline(run, report.outputs)])


def timeline(run: RunReport, outputs: Sequence[Output]) -> str:
    """An SVG picture of one run."""
    shown = [output for output in outputs if output.name in run.course.arrivals]
    height = TOP + LANE * len(shown) + 30
    scale = (WIDTH - LEFT - RIGHT) / max(run.course.seconds, 1e-9)

    def x(seconds: float) -> str:
        return f"{LEFT + max(0.0, min(seconds, run.course.seconds)) * scale:.1f}"

    lines = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="timeline">']
    for fault in run.faults:
        width = max(2.0, (fault.until_s - fault.since_s) * scale)
        style = "fault" if fault.happened else "missed"
        lines.append(
            f'<rect class="{style}" x="{x(fault.since_s)}" y="{TOP - 8}" width="{width:.1f}" '
            f'height="{LANE * len(shown) + 8}"><title>{escape(f"{fault.fault}: {fault.proof}")}</title></rect>'
        )
        if fault.happened:
            lines.append(f'<text x="{x(fault.since_s)}" y="{TOP - 12}">{escape(str(fault.fault))}</text>')
    for number, output in enumerate(shown):
        top = TOP + number * LANE
        middle = top + LANE / 2
        lines.append(f'<text x="0" y="{middle + 4}">{escape(_named(output)[:28])}</text>')
        lines.append(f'<line class="lane" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>')
        pause = run.course.pauses.get(output.name)
        if pause is not None:
            since, width = x(pause.since_s), pause.length_s * scale
            lines.append(
                f'<rect class="pause" x="{since}" y="{top + 4}" width="{width:.1f}" height="{LANE - 8}">'
                f"<title>longest pause: {pause.length_s:.1f} s</title></rect>"
            )
        times = run.course.arrivals[output.name]
        step = max(1, len(times) // TICKS_MAX)
        path = "".join(f"M{x(at_s)} {top + 5}v{LANE - 10}" for at_s in times[::step])
        lines.append(f'<path class="tick" d="{path}"/>')
    for share in range(6):
        seconds = run.course.seconds * share / 5
        lines.append(f'<text x="{x(seconds)}" y="{height - 8}">{seconds:.0f} s</text>')
    return "\n".join([*lines, "</svg>"])


def _named(output: Output) -> str:
    return f"{output.name} (sink)" if output.kind == "sink" else output.name
