"""A report that is made up, for what renders it."""

from __future__ import annotations

from rekindle.recovery.policy import AT_LEAST_ONCE, PRECISE
from rekindle.verify.classify import Arrival, Finding, classify
from rekindle.verify.faults import Fault, Injected
from rekindle.verify.report import Course, Output, Report, RunReport
from rekindle.verify.trace import Pause

RIGHT = {1: ['{"word":"<b>one</b>"}'], 2: ['{"word":"two"}']}
OUTPUTS = (
    Output("counts", "stream", "PassiveStandby", PRECISE),
    Output("told", "sink", "PassiveStandby", AT_LEAST_ONCE),
)


def finding(*epochs: int, rows: dict[int, list[str]] | None = None) -> Finding:
    """Of a trace in which these epochs came, in this order."""
    held = RIGHT | (rows or {})
    return classify(RIGHT, [Arrival(epoch, tuple(held[epoch]), float(epoch)) for epoch in epochs])


def injected(kind: str = "kill-node", *, happened: bool = True, at_s: float = 3.0) -> Injected:
    return Injected(
        Fault(kind, 0.5, 0.1), happened, "incarnation 1 of main" if happened else "no <root>", at_s, at_s + 2
    )


def run(number: int, counts: Finding, told: Finding, *faults: Injected, failure: str = "") -> RunReport:
    arrivals = {"counts": [1.0, 2.0, 8.0], "told": [1.5, 8.5]}
    pauses: dict[str, Pause | None] = {"counts": Pause(2.0, 8.0), "told": Pause(1.5, 8.5)}
    return RunReport(number, 0.0, faults, {"counts": counts, "told": told}, Course(10.0, arrivals, pauses), failure)


def report(*runs: RunReport, unrepeatable: tuple[str, ...] = (), nondeterminism: tuple[str, ...] = ()) -> Report:
    undisturbed = run(0, finding(1, 2), finding(1, 2))
    return Report("words", "words.py", 7, OUTPUTS, undisturbed, runs, unrepeatable, nondeterminism)


GOOD = report(run(1, finding(1, 2), finding(1, 2, 2), injected()))
BAD = report(run(1, finding(1, 2), finding(1, 2), injected()), run(2, finding(1), finding(1, 2), injected("step")))
