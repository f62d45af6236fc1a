"""Every verdict, from traces that are written down by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rekindle.guarantees import NEITHER
from rekindle.recovery.policy import AT_LEAST_ONCE, AT_MOST_ONCE, PRECISE
from rekindle.verify.classify import Arrival, Finding, Gap, canonical, classify

RIGHT = {1: ["a", "b"], 2: ["c"], 3: ["d", "e"]}


def came(*pieces: tuple[int, str] | tuple[int, str, str]) -> list[Arrival]:
    """Arrivals such as (2, "c"), or (2, "c", "x") where x was gone then."""
    return [
        Arrival(piece[0], tuple(piece[1]), float(at), tuple(piece[2]) if len(piece) > 2 else ())
        for at, piece in enumerate(pieces)
    ]


def judged(
    *pieces: tuple[int, str] | tuple[int, str, str], right: Mapping[int, Sequence[str]] = RIGHT, repeatable: bool = True
) -> Finding:
    return classify(right, came(*pieces), repeatable=repeatable)


def figures(finding: Finding) -> tuple[int, int, int, int]:
    return finding.lost, finding.repeated, finding.changed, finding.unexpected


def test_every_row_once_is_precise() -> None:
    finding = judged((1, "ab"), (2, "c"), (3, "de"))
    assert finding.verdict == "precise" and figures(finding) == (0, 0, 0, 0)
    assert (finding.rows, finding.received) == (5, 5) and finding.examples == ()


def test_the_order_of_rows_and_an_epoch_in_two_parts_do_not_matter() -> None:
    assert judged((1, "ba"), (2, "c"), (3, "e"), (3, "d")).verdict == "precise"


def test_an_empty_epoch_need_not_arrive() -> None:
    assert judged((1, "a"), right={1: ["a"], 2: []}).verdict == "precise"


def test_a_missing_epoch_is_a_gap() -> None:
    finding = judged((1, "ab"), (3, "de"))
    assert finding.verdict == "gap" and finding.gaps == (Gap(2, 1),)
    assert [(e.what, e.expected, e.seen) for e in finding.examples] == [("lost", "c", None)]


def test_a_missing_row_is_a_gap_of_its_epoch() -> None:
    finding = judged((1, "a"), (2, "c"), (3, "de"))
    assert finding.verdict == "gap" and finding.gaps == (Gap(1, 1),)


def test_rows_that_are_withdrawn_for_good_are_a_gap() -> None:
    finding = judged((1, "ab"), (2, "c"), (3, "de"), (3, "", "e"))
    assert finding.verdict == "gap" and finding.gaps == (Gap(3, 1),)


def test_what_was_dropped_on_record_is_a_gap() -> None:
    finding = classify({}, [], dropped={4: 100, 6: 0}, agreed=7)
    assert finding.verdict == "gap" and finding.gaps == (Gap(4, 100, on_record=True),)
    assert finding.rows == finding.received == 7


def test_an_epoch_that_comes_again_as_it_was_is_repeating() -> None:
    finding = judged((1, "ab"), (2, "c"), (2, "c"), (3, "de"))
    assert finding.verdict == "repeating" and figures(finding) == (0, 1, 0, 0)
    assert [(e.epoch, e.what, e.seen) for e in finding.examples] == [(2, "repeated", "c")]


def test_a_part_of_an_epoch_before_the_whole_is_repeating() -> None:
    finding = judged((1, "a"), (1, "ab"), (2, "c"), (3, "de"))
    assert finding.verdict == "repeating" and figures(finding) == (0, 1, 0, 0)


def test_two_equal_rows_of_one_epoch_are_no_repetition() -> None:
    assert judged((1, "aa"), right={1: ["a", "a"]}).verdict == "precise"
    assert judged((1, "aaa"), right={1: ["a", "a"]}).repeated == 1


def test_another_version_that_is_put_right_is_convergent() -> None:
    finding = judged((1, "ab"), (2, "x"), (2, "c", "x"), (3, "de"))
    assert finding.verdict == "convergent" and figures(finding) == (0, 0, 1, 0)
    assert [(e.what, e.expected, e.seen) for e in finding.examples] == [("changed", "c", "x")]


def test_another_version_that_stays_beside_the_right_one_is_convergent_if_the_newest_is_right() -> None:
    assert judged((1, "ab"), (2, "x"), (2, "c"), (3, "de")).verdict == "convergent"
    assert judged((1, "ab"), (2, "c"), (2, "x"), (3, "de")).verdict == "divergent"


def test_another_content_that_stays_is_divergent() -> None:
    finding = judged((1, "ab"), (2, "x"), (3, "de"))
    assert finding.verdict == "divergent" and figures(finding) == (0, 0, 1, 0)
    assert [(e.what, e.expected, e.seen) for e in finding.examples] == [("changed", "c", "x")]


def test_a_row_too_many_is_divergent_and_unexpected() -> None:
    finding = judged((1, "ab"), (2, "cx"), (3, "de"))
    assert finding.verdict == "divergent" and figures(finding) == (0, 0, 0, 1)
    assert [(e.what, e.expected, e.seen) for e in finding.examples] == [("unexpected", None, "x")]


def test_lost_and_repeated_rows_are_both_told() -> None:
    finding = judged((1, "ab"), (1, "ab"), (3, "de"))
    assert finding.verdict == "gap and repeating" and figures(finding) == (1, 2, 0, 0)


def test_the_worst_rollback_of_all_epochs_counts() -> None:
    assert judged((1, "ab"), (1, "ab"), (2, "x"), (3, "de")).verdict == "divergent"


def test_what_comes_after_the_end_of_the_undisturbed_run_is_judged_by_itself() -> None:
    whole = ((1, "ab"), (2, "c"), (3, "de"))
    assert judged(*whole, (4, "fg")).verdict == "precise"
    assert judged(*whole, (4, "fg"), (4, "fg")).verdict == "repeating"
    assert judged(*whole, (4, "fg"), (4, "fx")).verdict == "divergent"


def test_where_nothing_repeats_itself_each_epoch_is_compared_with_itself() -> None:
    other = ((1, "xy"), (2, "z"), (3, "vw"))
    assert judged(*other).verdict == "divergent"
    assert judged(*other, repeatable=False).verdict == "precise"
    assert judged(*other, (3, "vw"), repeatable=False).verdict == "repeating"
    assert judged(*other, (3, "uv"), repeatable=False).verdict == "divergent"
    assert judged((1, "xy"), (3, "v"), repeatable=False).gaps == (Gap(2, 1), Gap(3, 1))


def test_a_part_of_a_version_that_is_never_seen_again_converges() -> None:
    assert judged((1, "p"), (1, "qr"), (2, "z"), (3, "vw"), repeatable=False).verdict == "convergent"


def test_few_examples_are_kept_of_many() -> None:
    finding = classify({1: [f"row {n}" for n in range(100)]}, [])
    assert finding.lost == 100 and len(finding.examples) == 3


@pytest.mark.parametrize(
    ("promised", "kept"),
    [
        (PRECISE, {"precise"}),
        (AT_LEAST_ONCE, {"precise", "repeating"}),
        (AT_MOST_ONCE, {"precise", "gap"}),
        (NEITHER, {"precise", "gap", "repeating", "gap and repeating"}),
    ],
)
def test_which_verdicts_keep_a_promise(promised: str, kept: set[str]) -> None:
    traces = {
        "precise": judged((1, "ab"), (2, "c"), (3, "de")),
        "gap": judged((1, "ab"), (3, "de")),
        "repeating": judged((1, "ab"), (2, "c"), (2, "c"), (3, "de")),
        "convergent": judged((1, "ab"), (2, "x"), (2, "c"), (3, "de")),
        "divergent": judged((1, "ab"), (2, "x"), (3, "de")),
        "gap and repeating": judged((1, "ab"), (1, "ab"), (3, "de")),
    }
    assert {name: finding.verdict for name, finding in traces.items()} == {name: name for name in traces}
    assert {name for name, finding in traces.items() if finding.holds(promised)} == kept


def test_rows_are_compared_by_column_names_and_twelve_digits() -> None:
    assert canonical('{"b":1,"a":0.1}') == canonical('{"a":0.10000000000000002,"b":1}')
    assert canonical('{"a":0.1}') != canonical('{"a":0.10000000001}')
    assert canonical('{"at":1795126000.12}') != canonical('{"at":1795126000.14}')
    assert canonical('{"a":[{"x":1e300}]}') == canonical('{"a": [{"x": 1.0000000000001e300}]}')
    assert canonical("plain text, {not json") == "plain text, {not json"
    assert canonical("{not json") == "{not json"
    assert canonical('{"a":1}') != canonical('{"a":"1"}')
