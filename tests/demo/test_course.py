"""The whole demonstration, small: real nodes, a real SIGKILL, and a verdict on what was really delivered."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from rekindle.demo.chain import STEPS
from rekindle.demo.course import Course, Plan
from rekindle.demo.scale import Scale
from rekindle.demo.show import Lines


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.timeout(400)
def test_a_killed_node_leaves_no_trace_in_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")]))
    scale = Scale(payments_per_s=200, logins_per_s=60, seconds=25, accounts=50)
    told: list[str] = []
    course = Course(Plan(tmp_path, scale, victim="score", kill_after_s=2.0, sabotage=None), Lines(told.append))
    try:
        outcome = course.play()
    finally:
        course.end()
    assert outcome.faults == (), "\n".join(told)
    assert outcome.is_good, outcome.to_json()
    assert outcome.verdict.delivered > 100
    assert {moment.step for moment in outcome.moments} >= set(STEPS)
    assert [p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in (p.info["cmdline"] or [])] == []
