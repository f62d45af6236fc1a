from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import DeclarationError
from rekindle.verify.markdown import BEGIN, END, markdown, put_table
from tests.verify.reports import BAD, GOOD, finding, injected, report, run


def test_one_row_for_each_kind_that_came_alone() -> None:
    mixed = run(3, finding(1, 2), finding(1, 2), injected("kill-jvm"), injected("kill-all"))
    lines = markdown(report(*BAD.runs, mixed)).splitlines()
    kinds = [line.split("|")[1].strip().partition(":")[0] for line in lines[3:5]]
    assert kinds == ["kill-node", "step"]
    assert lines[4].split("|")[3:5] == [" gap, 1 rows ", " precise "]
    assert not any("kill-all" in line for line in lines)


def test_a_fault_that_did_not_happen_says_why() -> None:
    text = markdown(report(run(1, finding(1, 2), finding(1, 2), injected("full-disk", happened=False))))
    assert "| no: no <root> |" in text


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
