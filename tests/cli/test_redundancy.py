"""How many replicas there are of how many wanted, from what members say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rekindle.cli.redundancy import Redundancy, redundancy
from rekindle.keeper.records import Incarnation, Member, Owner, StreamRecord

STREAMS = {
    "lines": StreamRecord("lines", "lines", "{}", (), "precise"),
    "lines_rejected": StreamRecord("lines_rejected", "lines", "{}", (), "precise"),
    "counts": StreamRecord("counts", "counts", "{}", ("lines",), "precise"),
}


def member(node: str, incarnation: int, phase: str = "ready", of: int = 2, **roles: str) -> Member:
    replicas = {subject: {"role": role, "epoch": 7, "of": of} for subject, role in roles.items()}
    report: Mapping[str, Any] = {"phase": phase, "jvm_pid": 1, "failed": [], "replicas": replicas}
    return Member(node, Incarnation(incarnation), "running", "run", "", 0, 0, 1, "", 0.0, report)


def found(*members: Member, live: set[int] | None = None, **owners: Owner) -> dict[str, Redundancy]:
    alive = {int(m.incarnation) for m in members} if live is None else live
    return {r.subject: r for r in redundancy(members, alive, owners, STREAMS)}


@pytest.mark.parametrize(
    ("second", "text", "whole"),
    [
        ("computing", "2 of 2", True),
        ("standby", "2 of 2", True),
        ("joining", "1 of 2: main.2 is joining", False),
        ("waiting", "1 of 2: main.2 is waiting", False),
    ],
)
def test_who_computes_or_stands_by_counts(second: str, text: str, whole: bool) -> None:
    counts = found(member("main", 1, counts="computing"), member("main.2", 2, counts=second))["counts"]
    assert (counts.text, counts.whole, counts.wanted) == (text, whole, 2)


def test_a_node_that_is_gone_does_not_count() -> None:
    members = (member("main", 1, counts="computing"), member("main.2", 2, counts="computing"))
    counts = found(*members, live={1})["counts"]
    assert counts.text == "1 of 2: main.2 is not there"
    assert set(counts.replicas) == {"main"}


def test_a_node_that_has_only_started_is_said_to_start() -> None:
    members = (member("main", 1, counts="computing", of=3), member("main.2", 2, phase="starting"))
    assert found(*members)["counts"].text == "1 of 3: main.2 is starting, main.3 is not there"


def test_when_all_are_gone_the_wanted_number_is_still_known() -> None:
    members = (member("main", 1, counts="computing"), member("main.2", 2, counts="computing"))
    counts = found(*members, live=set())["counts"]
    assert (counts.now, counts.wanted, counts.replicas) == (0, 2, {})
    assert counts.text == "0 of 2: main is not there, main.2 is not there"


def test_the_primary_is_missing_while_the_second_computes() -> None:
    members = (member("main", 3, phase="starting"), member("main.2", 2, counts="computing"))
    assert found(*members)["counts"].text == "1 of 2: main is starting"


def test_what_failed_does_not_count() -> None:
    broken = member("main", 1, counts="computing", lines="computing", of=1)
    broken.report["failed"].append("counts")
    both = found(broken)
    assert both["counts"].text == "0 of 1: main is failed"
    assert both["lines"].text == "1 of 1"


def test_kinds_and_owners() -> None:
    members = (
        member("main", 1, lines="computing", counts="computing", counts_sink="computing"),
        member("main.2", 2, lines="standby", counts="computing", counts_sink="standby"),
    )
    by_name = found(
        *members,
        lines=Owner("lines", Incarnation(1), live=True, before=None),
        counts_sink=Owner("counts_sink", Incarnation(9), live=False, before=None),
    )
    assert {name: r.kind for name, r in by_name.items()} == {
        "lines": "source",
        "counts": "fragment",
        "counts_sink": "sink",
    }
    lines, counts, sink = by_name["lines"], by_name["counts"], by_name["counts_sink"]
    assert (lines.owner, lines.owner_incarnation, lines.owner_live) == ("main", 1, True)
    assert (counts.owner, counts.owner_incarnation) == ("", None)
    assert (sink.owner, sink.owner_incarnation, sink.owner_live) == ("", 9, False)


def test_members_that_say_nothing_of_replicas() -> None:
    silent = Member("main", Incarnation(1), "starting", "run", "", 0, 0, 0, "", 0.0, {})
    assert found(silent) == {}
