"""Real pipelines, real processes, real faults: every verdict comes out of one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rekindle.cli.main import app

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(400)]

AFTER_A_DELIVERY = 77  # the seed whose first fault is a kill after a delivery to the first sink by name
PIPELINES = Path(__file__).parent / "pipelines"


def test_every_verdict_comes_out_of_a_real_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run: the node dies twice by its own sinks, and once after a delivery of 'appended' that is not on record."""
    monkeypatch.setenv("VERDICTS_ONCE", str(tmp_path))
    page, record = tmp_path / "page.html", tmp_path / "report.json"
    options = f"--runs 1 --per-run 1 --faults step --seed {AFTER_A_DELIVERY} --cores 1 --no-determinism"
    arguments = ["verify", str(PIPELINES / "verdicts.py"), *options.split(), "--html", str(page), "--json", str(record)]
    done = CliRunner().invoke(app, arguments)
    assert record.exists(), done.output
    told = json.loads(record.read_text())
    verdicts = {output["name"]: output["verdict"] for output in told["outputs"]}
    assert {tmp_path / "stamped", tmp_path / "provisional"} <= set(tmp_path.iterdir()), done.output
    assert told["faults_injected"] == 1 and told["runs"][0]["failure"] is None
    assert {verdicts[name] for name in ("ticks", "odd", "exact")} == {"precise"}
    assert verdicts["seen"] == "gap" and verdicts["appended"] == "repeating"
    assert verdicts["stamped"] == "divergent" and verdicts["provisional"] == "convergent"
    assert done.exit_code == 1 and told["holds"] is False  # both promise to repeat the same rows at the most
    (run,) = told["runs"]
    proof = run["faults"][0]["proof"]
    assert proof.startswith("at after_delivery of epoch ") and proof.endswith(" of appended")
    gaps = run["findings"]["seen"]["gaps"]
    assert gaps and all(gap["on_record"] and gap["rows"] > 0 for gap in gaps)
    assert run["findings"]["stamped"]["examples"]
    assert "divergent" in page.read_text() and "verdict: BAD" in done.output
