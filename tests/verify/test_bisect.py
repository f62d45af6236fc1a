"""Which operator a determinism check names, and why: what they compute is made up, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import RekindleError
from rekindle.node.variants import Computed, Variant
from rekindle.plan import Traits, fuse
from rekindle.streams.differences import Difference
from rekindle.verify import determinism as d
from rekindle.verify.audit import Wish
from rekindle.verify.findings import Finding
from tests.verify.test_reach import long

HERE, THERE = "here", "there"
Way = Callable[[str, str, Variant, int], str]
"""What an operator computes: by its name, the process, the variant, and how often it was computed here before."""


def check(monkeypatch: pytest.MonkeyPatch, way: Way, *, gone: bool = False) -> list[Finding]:
    """Of a fragment ``s`` with the operators ``first``, ``second`` and ``s``."""
    pipeline = rk.Pipeline("p")
    pipeline.source("a", rk.sources.Rate(1))
    pipeline.stream(name="first")(lambda a: a)
    pipeline.stream(name="second")(lambda first: first)
    pipeline.stream(name="s")(lambda second: second)
    fragments = fuse(pipeline, {name: Traits() for name in pipeline.streams})
    before: dict[str, int] = {}

    def made(operator: str, process: str, variant: Variant) -> Computed:
        digest = way(operator, process, variant, before.get(operator, 0))
        if digest.startswith("raise "):
            return Computed("{}", {}, {}, digest)
        return Computed("{}", {1: "same", 2: digest}, {1: (), 2: ()})

    def here(
        _bench: Any, _keeper: Any, _fragment: Any, operator: str, _epochs: Any, variant: Variant, _keep: Path
    ) -> Any:
        found = made(operator, HERE, variant)
        before[operator] = before.get(operator, 0) + 1
        return found

    def works_of(*_: Any) -> list[Any]:
        if gone:
            raise RekindleError("epochs were trimmed")
        return []

    monkeypatch.setattr(d, "APART_S", 0.0)
    monkeypatch.setattr(d, "computed", here)
    monkeypatch.setattr(d, "works_of", works_of)
    monkeypatch.setattr(d, "differing", lambda *_: Difference(1, 1, ("x",), ("y",)))
    other: Any = SimpleNamespace(
        compute=lambda _fragment, operator, _epochs, variant, _keep: made(operator, THERE, variant)
    )
    analysis = SimpleNamespace(fragments=fragments, schemas=dict.fromkeys(pipeline.streams), traits={})
    bench: Any = SimpleNamespace(analysis=analysis, spark=None)
    keeper: Any = None
    one = d._Check(bench, other, long(2), keeper, Path("x"), Wish(), 2, 7, lambda what, done, total: None)
    report = one.run()
    assert [line.subject for line in report.checked] == ["s"]
    return report.findings


def named(findings: list[Finding]) -> tuple[str, str]:
    (finding,) = findings
    assert finding.level == "wrong"
    return finding.subject, finding.hint.removeprefix("it differs ").removeprefix("it fails ")


def test_what_is_the_same_has_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, lambda operator, process, variant, times: operator) == []


@pytest.mark.parametrize(
    ("way", "why"),
    [
        (lambda _, process, variant, times: f"{process} {times}", d.EACH_TIME),
        (lambda _, process, variant, times: process, d.PROCESS),
        (lambda _, process, variant, times: str(variant.partitions), d.PARTITIONS),
        (lambda _, process, variant, times: str(variant.shuffle), d.ORDER),
        (lambda _, process, variant, times: str(variant.shuffle == 7 and variant.partitions > 2), d.TOGETHER),
    ],
)
def test_the_least_that_must_change_is_told(monkeypatch: pytest.MonkeyPatch, way: Way, why: str) -> None:
    assert named(check(monkeypatch, way)) == ("first", why)


@pytest.mark.parametrize("culprit", ["first", "second", "s"])
def test_the_first_operator_that_differs_is_named(monkeypatch: pytest.MonkeyPatch, culprit: str) -> None:
    """What comes after it differs, too."""
    names = ["first", "second", "s"]
    after = names[names.index(culprit) :]
    findings = check(monkeypatch, lambda operator, process, variant, times: process if operator in after else "")
    assert named(findings) == (culprit, d.PROCESS)
    assert findings[0].epoch == 2 and findings[0].expected == ("x",) and findings[0].found == ("y",)
    assert "test_bisect.py" in findings[0].where
    assert ("in fragment 's'" in findings[0].what) == (culprit != "s")


def test_a_difference_that_comes_to_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(monkeypatch, lambda operator, process, variant, times: process if operator == "first" else "") == []


def test_an_operator_that_fails_in_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = check(
        monkeypatch, lambda operator, process, variant, times: "raise ValueError" if variant.shuffle else "fine"
    )
    assert named(findings) == ("first", d.ORDER) and "fails in one of two replays" in findings[0].what


def test_one_that_fails_in_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    findings = check(monkeypatch, lambda operator, process, variant, times: "raise ValueError")
    assert named(findings) == ("s", "correct the operator") and "cannot be computed again" in findings[0].what


def test_what_is_trimmed_meanwhile_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    way: Way = lambda operator, process, variant, times: "raise it is gone" if process == THERE else "fine"  # noqa: E731
    (note,) = check(monkeypatch, way, gone=True)
    assert note.level == "note" and "trimmed" in note.where
