"""The model holds, and breaks without any one of its guards; and the guards are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spec import check
from spec.guards import GUARDS, Guard

SOURCE = Path(__file__).parents[2] / "src" / "rekindle"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_model_holds_and_needs_each_of_its_guards() -> None:
    assert check.missing_tools() == [], check.INSTALL
    found = check.run_all()
    assert [why for task, result in found.items() if (why := check.wrong(task, result)) is not None] == []
    assert {task.guard for task in found if task.guard is not None} == set(GUARDS)
    assert {task.scene.name for task in found if task.guard is None} == check.SCENES.keys()


def test_a_guard_that_nothing_needs_and_a_model_that_breaks_are_both_told() -> None:
    without, intact = check.Task(check.SCENES["owners"], GUARDS[0]), check.Task(check.SCENES["owners"])
    held, broke = check.Found(9, 9, None), check.Found(9, 9, "assertion violated x")
    assert check.wrong(intact, held) is None and check.wrong(without, broke) is None
    assert "does not need this guard" in (check.wrong(without, held) or "")
    assert "broke: assertion violated x" in (check.wrong(intact, broke) or "")


def test_a_search_that_is_cut_short_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "DEPTH", 20)
    with pytest.raises(check.CheckFailed, match="cut short"):
        check.search(check.Task(check.SCENES["owners"]))


@pytest.mark.long
def test_the_story_of_a_guard_is_told() -> None:
    (guard,) = (g for g in GUARDS if g.name == "OWN_LIVE_STAYS")
    *steps, end = check.story(guard)
    assert steps[-1].endswith("asks to own: done") and end.startswith("=> assertion violated")


def test_the_table_has_the_guards_of_the_model() -> None:
    numbered = re.findall(r"#define (\w+) (\d+)", (check.HERE / "guards.pml").read_text())
    names = {name for name, number in numbered if number != "0"}
    assert names == {guard.name for guard in GUARDS} and len(names) == len(GUARDS)
    assert len({number for _, number in numbered}) == len(numbered), "two guards have one number"
    model = "".join(file.read_text() for file in check.HERE.glob("*.pml"))
    assert set(re.findall(r"(?:GUARD|KEPT)\((\w+)", model)) - {"name", "NAME"} == names


def test_the_table_is_in_the_page() -> None:
    page = check.README.read_text()
    assert check.with_table(page) == page, "run ./run spec --write"


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_line_that_a_guard_stands_for_is_in_the_code(guard: Guard) -> None:
    text = (SOURCE / guard.file).read_text()
    body: list[ast.stmt] = ast.parse(text).body
    for name in guard.function.split("."):
        (found,) = (n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name)
        body = found.body
    source = " ".join((ast.get_source_segment(text, found) or "").split())
    assert guard.line in source, f"{guard.file} {guard.function} has no such line any more: is the guard still there?"
