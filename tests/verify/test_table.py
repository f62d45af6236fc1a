from __future__ import annotations

import io

from rich.console import Console

from rekindle.verify.table import conclusion, examples, table
from tests.verify.reports import BAD, GOOD, finding, injected, report, run


def shown(rendered: object) -> str:
    out = io.StringIO()
    Console(file=out, width=140).print(rendered)
    return out.getvalue()


def test_the_table_has_a_row_for_each_output() -> None:
    lines = shown(table(GOOD)).splitlines()
    (told,) = [line for line in lines if "told (sink)" in line]
    assert "PassiveStandby" in told and "at-least-once" in told and "repeating" in told and "7.0 s" in told
    assert "1 runs, 1 faults, seed 7" in lines[0]


def test_gaps_and_example_rows_are_told() -> None:
    lines = examples(BAD)
    assert "run 2, counts, epoch 2: 1 rows are missing" in lines
    assert '    undisturbed  {"word":"two"}' in lines


def test_the_conclusion_says_why() -> None:
    assert conclusion(GOOD)[-1] == "verdict: GOOD, every output gave what it promises under 1 faults"
    precise = report(run(1, finding(1, 2), finding(1, 2), injected()))
    assert "every output was precise" in conclusion(precise)[-1]
    bad = conclusion(BAD)
    assert "run 2: stream counts promises precise, and was gap" in bad and bad[-1].endswith("--seed 7")
    nothing = conclusion(report(run(1, finding(1, 2), finding(1, 2), injected(happened=False))))
    assert "no fault happened, so nothing was verified" in nothing and "not injected: kill-node: no <root>" in nothing
    more = conclusion(
        report(
            run(1, finding(1, 2), finding(1, 2), injected(), failure="stuck"),
            unrepeatable=("told",),
            nondeterminism=("counts: uuid",),
        )
    )
    assert more[0].startswith("* told: two undisturbed runs differ") and "not deterministic: counts: uuid" in more
    assert "run 1 did not come to its end: stuck" in more
