"""What is printed, drawn and written of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import _report as report
from bench._figures import figures
from bench._options import parse
from bench._runs import Result
from bench._verdict import Verdict
from tests.bench.results import killed, result

RUNS = [
    result("spark_tuned", "throughput", rows_per_s=1000.0, cpu_s=2.0, cpu_rows=1000, peak_bytes=2**30),
    result("rekindle", "throughput", rows_per_s=900.0, recovery_bytes={"keeper": 2**20, "layers": 2**20}),
    result("spark", "latency", latency_s={"p50": 0.4, "p99": 0.9, "max": 1.5}),
    result("rekindle", "latency", latency_s={"p50": 0.3, "p99": 0.8, "max": 1.0}),
    killed("spark", 15.0),
    killed("rekindle:active_standby", 0.6),
]


def said(runs: list[Result], **settings: Any) -> dict[str, Any]:
    machine = {"cores": 2, "processor": "a <b> & c"}
    return {"machine": machine, "settings": {"sweep": None, **settings}, "runs": [run.to_json() for run in runs]}


def shown(runs: list[Result], tmp_path: Path, *arguments: str, **settings: Any) -> int:
    path = tmp_path / "it.json"
    path.write_text(json.dumps(said(runs, **settings)))
    return report.show(json.loads(path.read_text()), parse(["--from", str(path), *arguments]))


def test_tables_and_ratios_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(RUNS, tmp_path) == 0
    out = capsys.readouterr().out
    assert "wordcount: throughput / plain Spark, tuned" in out and "missed by 0.05" in out
    assert "wordcount: longest pause, ActiveStandby / plain Spark, restarted" in out
    (line,) = [line for line in out.splitlines() if "Rekindle, Rollback()" in line and "900" in line]
    assert line.split("  ")[-1].strip() == "exact" and "2.0 MiB" in line


def test_markdown_is_a_table_of_as_many_columns_as_its_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(RUNS, tmp_path, "--markdown")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert lines and all(line.count("|") in (5, 9, 10, 14) for line in lines)
    assert "| wordcount | Rekindle, Rollback() | 900 | 0.90 |  |  | 2.0 MiB | exact |" in lines


def test_the_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    shown(RUNS, tmp_path)
    page = (tmp_path / "it.html").read_text()
    assert "a &lt;b&gt; &amp; c" in page and "<b>" not in page
    assert page.count("src='data:image/png;base64,") == page.count("<img") == 3
    assert "http" not in page and "<link" not in page
    names = sorted(path.name for path in (tmp_path / "it").iterdir())
    assert names == ["benchmarks-latency.png", "benchmarks-recovery-wordcount.png", "benchmarks-throughput.png"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (result("spark", "throughput", failed="no Java", verdict=None), "FAILED: no Java"),
        (result("flink", "throughput", verdict=Verdict(9, duplicated=2)), "2 duplicated"),
        (result("rekindle", "recovery", verdict=Verdict(9, changed=1)), "1 changed"),
    ],
    ids=["failed", "wrong", "Rekindle changed what was seen"],
)
def test_what_is_wrong_is_told_and_is_the_exit_code(
    bad: Result, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown([*RUNS, bad], tmp_path) == 1
    assert f"{bad.workload}, {bad.measure}, round 1, {bad.peer}: {message}" in capsys.readouterr().out
    assert message in (tmp_path / "it.html").read_text()


def test_what_a_plain_peer_changed_is_a_finding_and_no_failure() -> None:
    assert report.tolerable(killed("spark", 9.0, verdict=Verdict(9, changed=1)))


def test_a_peer_of_which_all_runs_failed_says_so() -> None:
    runs = [result("flink", "throughput", failed="no network", verdict=None)] * 2
    ((_, table),) = report.tables(figures(runs))
    assert table[1][-1] == "2 of 2 runs failed"


def test_a_sweep_has_a_line_for_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [killed("rekindle:rollback", 4.0 + at, interval_s=float(at)) for at in (1, 5, 15)]
    runs.append(killed("rekindle:source_replay", 9.0))
    assert shown(runs, tmp_path, sweep="interval") == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "Rollback()" in line and "longest pause" in line]
    assert line.split()[-6:] == ["5.00", "s", "9.00", "s", "19.00", "s"]
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["benchmarks-sweep-interval.png"]
