"""Pipelines that are not deterministic, in every way that is known to happen, beside some that are: in one check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.verify import determinism as d
from rekindle.verify.findings import Finding, Report
from tests.verify.homes import CORES, PIPELINES, Specimen
from tests.verify.pipelines.unsteady import ROWS

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(400)]
FILE = PIPELINES / "unsteady.py"


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    specimen = Specimen(FILE, tmp_path_factory.mktemp("unsteady") / "home", spark, ROWS)
    with specimen.keeper() as keeper:
        found = d.check_determinism(specimen.code(), specimen.fresh(), keeper, cores=CORES, seed=7)
    assert not list((specimen.root / "work" / ".scratch").glob("audit.*")), "its scratch is left"
    return found


def of(report: Report, operator: str) -> Finding:
    (found,) = [finding for finding in report.findings if finding.subject == operator]
    return found


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        ("numbered", d.ORDER),
        ("firsts", d.ORDER),
        ("tagged", d.EACH_TIME),
        ("joined_up", d.PROCESS),
        ("timed", d.EACH_TIME),
    ],
)
def test_an_operator_that_is_not_deterministic_is_named(report: Report, operator: str, why: str) -> None:
    finding = of(report, operator)
    assert finding.level == "wrong" and "is not deterministic" in finding.what
    line = next(n for n, text in enumerate(FILE.read_text().splitlines(), 1) if text.startswith(f"def {operator}("))
    path, _, number = finding.where.rpartition(":")
    assert Path(path) == FILE and abs(int(number) - line) <= 1
    assert finding.hint == f"it differs {why}"
    assert finding.expected and finding.found and json.loads(finding.expected[0]) != json.loads(finding.found[0])


def test_the_operator_is_named_and_not_its_fragment(report: Report) -> None:
    """``tagged`` is fused into ``lengths``, whose rows differ because of it."""
    assert "fragment 'lengths'" in of(report, "tagged").what
    assert {line.subject: line.wrong for line in report.checked}["lengths"] == 1


def test_what_is_deterministic_passes(report: Report) -> None:
    assert {finding.subject for finding in report.findings} == {"numbered", "firsts", "tagged", "joined_up", "timed"}
    clean = {line.subject: line for line in report.checked if not line.wrong}
    assert clean.keys() == {"matched", "windows", "earliest"}
    assert all(line.count > 1 for line in clean.values())
