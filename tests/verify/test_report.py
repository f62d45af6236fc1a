from __future__ import annotations

import json

from tests.verify.reports import BAD, GOOD, finding, injected, report, run


def test_a_promise_that_is_kept() -> None:
    assert GOOD.holds and not GOOD.is_precise
    assert (GOOD.verdict("counts"), GOOD.verdict("told")) == ("precise", "repeating")
    assert GOOD.total("told", "repeated") == 1


def test_a_promise_that_is_broken_in_one_run() -> None:
    assert not BAD.holds
    ((number, output, found),) = BAD.broken
    assert (number, output.name, found.verdict) == (2, "counts", "gap")
    assert BAD.verdict("counts") == "gap"


def test_without_any_fault_nothing_is_verified() -> None:
    nothing = report(run(1, finding(1, 2), finding(1, 2), injected(happened=False)))
    assert not nothing.is_precise and not nothing.holds and nothing.injected == 0


def test_a_run_that_did_not_end_and_a_finding_of_the_determinism_check_are_bad() -> None:
    assert not report(run(1, finding(1, 2), finding(1, 2), injected(), failure="stuck")).holds
    assert not report(run(1, finding(1, 2), finding(1, 2), injected()), nondeterminism=("counts differs",)).holds


def test_the_worst_verdict_of_all_runs_counts() -> None:
    changed = finding(1, 2, rows={2: ["another"]})
    both = report(run(1, finding(1), finding(1), injected()), run(2, changed, finding(1, 2), injected()))
    assert both.verdict("counts") == "divergent" and both.verdict("told") == "gap"


def test_json_holds_everything() -> None:
    told = json.loads(json.dumps(BAD.to_json()))
    assert told["holds"] is False and told["seed"] == 7 and told["faults_injected"] == 2
    assert [o["verdict"] for o in told["outputs"]] == ["gap", "precise"]
    second = told["runs"][1]
    assert second["faults"][0]["kind"] == "step" and second["faults"][0]["proof"] == "incarnation 1 of main"
    assert second["findings"]["counts"]["gaps"] == [{"epoch": 2, "rows": 1, "on_record": False}]
    assert second["findings"]["counts"]["examples"][0]["expected"] == '{"word":"two"}'
    assert second["longest_pause_s"] == {"counts": 6.0, "told": 7.0}
