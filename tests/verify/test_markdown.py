from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import DeclarationError
from rekindle.verify.markdown import BEGIN, END, markdown, put_table
from tests.verify.reports import BAD, GOOD, finding, injected, report, run


def test_one_row_for_each_kind_that_came_alone() -> None:
    mixed = run(3, finding(1, 2), finding(1, 2), injected("kill-jvm"), injected("kill-all"))
    lines = markdown(report(*BAD.runs, mixed)).splitlines()
    assert [line.split("|")[1].strip().partition(":")[0] for line in lines[3:]] == ["kill-node", "step"]
    assert [cell.strip() for cell in lines[4].split("|")[2:6]] == ["1", "4", "gap, 1 rows", "precise"]


def test_a_fault_that_did_not_happen_says_why() -> None:
    text = markdown(report(run(1, finding(1, 2), finding(1, 2), injected("full-disk", happened=False))))
    assert "| 0 | | not injected: no <root> |" in text


def test_a_run_that_did_not_end_is_told() -> None:
    assert "| 1, but: stuck |" in markdown(report(run(1, finding(1, 2), finding(1, 2), injected(), failure="stuck")))


def test_rows_of_other_faults_stay_and_are_in_the_order_of_the_kinds() -> None:
    jvm = report(run(1, finding(1, 2), finding(1, 2), injected("kill-jvm")))
    both = markdown(jvm, markdown(BAD))
    assert [line[2:].partition(":")[0] for line in both.splitlines()[3:]] == ["kill-node", "kill-jvm", "step"]
    assert markdown(jvm, both) == both and markdown(BAD, both) == both
    other = both.replace("PassiveStandby", "Rollback")
    assert len(markdown(jvm, other).splitlines()) == 4  # another table: it starts anew


def test_the_table_is_put_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "guarantees.md"
    page.write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    put_table(GOOD, page)
    put_table(GOOD, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text
    assert text.count("| kill-node") == 1


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "other.md"
    page.write_text("mine")
    with pytest.raises(DeclarationError) as refused:
        put_table(GOOD, page)
    assert BEGIN in refused.value.hint and page.read_text() == "mine"


def test_a_new_page_is_made(tmp_path: Path) -> None:
    put_table(GOOD, tmp_path / "new.md")
    assert BEGIN in (tmp_path / "new.md").read_text()
