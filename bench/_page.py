"""One page with everything: facts of the machine, ratios, tables, charts. It needs nothing beside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

Table = Sequence[Sequence[str]]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 76rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .7rem; text-align: left; vertical-align: top }
th { border-bottom: 2px solid #999 }
tr.missed td:last-child { color: #c0392b; font-weight: bold }
img { max-width: 100%; margin: 1rem 0 }
dl { display: grid; grid-template-columns: max-content auto; gap: 0 1rem; font-size: 13px }
dt { color: #777 } dd { margin: 0 }
"""


def page(
    report: Mapping[str, Any], tables: Sequence[tuple[str, Table]], charts: Sequence[Path], bad: Sequence[str]
) -> str:
    """The whole document."""
    parts = ["<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Rekindle: benchmarks</title>",
             f"<style>{STYLE}</style></head><body><h1>Rekindle and its peers</h1>"]  # fmt: skip
    parts.append(_facts({**report["machine"], **report["settings"]}))
    if bad:
        parts.append("<h2>What went wrong</h2>" + "".join(f"<pre>{escape(text)}</pre>" for text in bad))
    for title, table in tables:
        parts.append(f"<h2>{escape(title)}</h2>{_table(table)}")
    for chart in charts:
        data = base64.b64encode(chart.read_bytes()).decode()
        parts.append(f"<img alt='{escape(chart.stem)}' src='data:image/png;base64,{data}'>")
    return "\n".join([*parts, "</body></html>\n"])


def _facts(facts: Mapping[str, Any]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(v))}</dd>" for name, v in facts.items()) + "</dl>"


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table[0])
    rows = []
    for row in table[1:]:
        missed = " class='missed'" if row[-1].startswith("missed") else ""
        rows.append(f"<tr{missed}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"
