"""Results as a run would give them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from bench._runs import Result
from bench._verdict import Verdict


def result(peer: str, measure: str, *, workload: str = "wordcount", **given: Any) -> Result:
    said = {"round": 1, "parameters": {}, "rows": 1000, "verdict": Verdict(expected=100), **given}
    return Result(workload, peer, measure, **said)


def killed(peer: str, *pauses_s: float, workload: str = "wordcount", **given: Any) -> Result:
    pauses = tuple(
        {"pause_s": s, "interval_s": 0.5, "first_output_s": s / 2, "redundant_s": 3.0, "caught_up_s": 2 * s,
         "events": [], "number": number}
        for number, s in enumerate(pauses_s)
    )  # fmt: skip
    timeline = ((-1.0, 10), (-0.5, 10), (pauses_s[0], 20), (pauses_s[0] + 0.5, 10))
    return result(peer, "recovery", workload=workload, pauses=pauses, timeline=timeline, **given)
