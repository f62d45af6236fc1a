from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.verify.trace import Content, Observation, Pause, RowKey, Verdict, judge, keyed, longest_pause

EXPECTED = {RowKey(f"k{i}"): Content(f"v{i}") for i in range(5)}
PERFECT = [Observation(key, content, float(i)) for i, (key, content) in enumerate(EXPECTED.items())]


def counts(verdict: Verdict) -> dict[str, int]:
    return {name: damage.rows for name, damage in verdict.damages.items() if damage.rows}


def test_a_trace_that_has_every_row_once_is_precise() -> None:
    verdict = judge(PERFECT, EXPECTED)
    assert verdict.is_precise
    assert counts(verdict) == {}
    assert (verdict.expected, verdict.delivered) == (5, 5)


def test_the_order_of_arrival_does_not_matter() -> None:
    assert judge(reversed(PERFECT), EXPECTED).is_precise


def test_a_row_that_never_came_is_lost() -> None:
    verdict = judge(PERFECT[1:], EXPECTED)
    assert counts(verdict) == {"lost": 1}
    assert not verdict.is_precise
    assert verdict.lost.examples[0].key == "k0"
    assert verdict.lost.examples[0].expected == "v0"
    assert verdict.lost.examples[0].seen == ()


def test_an_empty_trace_has_lost_everything_but_shows_a_few_examples() -> None:
    verdict = judge([], EXPECTED)
    assert counts(verdict) == {"lost": 5}
    assert len(verdict.lost.examples) == 3


def test_a_row_that_came_again_is_duplicated() -> None:
    verdict = judge([*PERFECT, replace(PERFECT[2], seen_s=9.0), replace(PERFECT[2], seen_s=10.0)], EXPECTED)
    assert counts(verdict) == {"duplicated": 2}
    assert verdict.duplicated.examples[0].seen == ("v2", "v2", "v2")


def test_two_equal_rows_of_the_same_moment_are_duplicated() -> None:
    assert counts(judge([*PERFECT, PERFECT[2]], EXPECTED)) == {"duplicated": 1}


def test_a_row_with_other_content_is_changed_and_not_lost() -> None:
    verdict = judge([replace(PERFECT[0], content=Content("other")), *PERFECT[1:]], EXPECTED)
    assert counts(verdict) == {"changed": 1}
    assert verdict.changed.examples[0].expected == "v0"
    assert verdict.changed.examples[0].seen == ("other",)


def test_a_row_that_came_again_with_other_content_is_duplicated_and_changed() -> None:
    again = replace(PERFECT[0], content=Content("other"), seen_s=9.0)
    assert counts(judge([*PERFECT, again], EXPECTED)) == {"duplicated": 1, "changed": 1}


def test_a_row_that_nobody_expects_is_unexpected() -> None:
    stranger = Observation(RowKey("k9"), Content("v9"), 1.0)
    assert counts(judge([*PERFECT, stranger], EXPECTED)) == {"unexpected": 1}
    assert counts(judge([*PERFECT, stranger, stranger], EXPECTED)) == {"unexpected": 2, "duplicated": 1}


def test_a_row_that_was_gone_again_is_withdrawn_and_lost() -> None:
    gone = replace(PERFECT[0], gone_s=7.0)
    assert counts(judge([gone, *PERFECT[1:]], EXPECTED)) == {"lost": 1, "withdrawn": 1}


def test_a_row_that_was_gone_and_came_back_is_withdrawn_only() -> None:
    gone, back = replace(PERFECT[0], gone_s=7.0), replace(PERFECT[0], seen_s=7.0)
    assert counts(judge([gone, *PERFECT[1:], back], EXPECTED)) == {"withdrawn": 1}


def test_a_row_that_was_replaced_by_another_is_withdrawn_and_changed() -> None:
    gone, other = replace(PERFECT[0], gone_s=7.0), Observation(RowKey("k0"), Content("other"), 7.0)
    assert counts(judge([gone, *PERFECT[1:], other], EXPECTED)) == {"withdrawn": 1, "changed": 1}


def test_json_has_the_counts_and_the_examples() -> None:
    record = judge(PERFECT[1:], EXPECTED).to_json()
    assert (record["precise"], record["lost"], record["duplicated"]) == (False, 1, 0)
    assert record["examples"] == {"lost": [{"key": "k0", "expected": "v0", "seen": []}]}


@given(
    fates=st.lists(
        st.tuples(
            st.sampled_from(["fine", "lost", "changed", "withdrawn", "replaced"]), st.integers(min_value=0, max_value=3)
        ),
        max_size=40,
    ),
    strangers=st.integers(min_value=0, max_value=5),
    shuffle=st.randoms(use_true_random=False),
)
def test_random_damage_is_counted_exactly(fates: list[tuple[str, int]], strangers: int, shuffle: Random) -> None:
    expected: dict[RowKey, Content] = {}
    trace: list[Observation] = []
    due = dict.fromkeys(("lost", "duplicated", "changed", "unexpected", "withdrawn"), 0)
    for number, (fate, copies) in enumerate(fates):
        key, right, wrong = RowKey(f"k{number}"), Content(f"v{number}"), Content(f"w{number}")
        expected[key] = right
        if fate == "lost":
            due["lost"] += 1
            continue
        if fate == "withdrawn":
            trace.append(Observation(key, right, 1.0, gone_s=5.0))
            due["lost"] += 1
            due["withdrawn"] += 1
            continue
        if fate == "replaced":
            trace.append(Observation(key, right, 1.0, gone_s=5.0))
            due["withdrawn"] += 1
        content = right if fate == "fine" else wrong
        trace += [Observation(key, content, 5.0 + copy) for copy in range(1 + copies)]
        due["duplicated"] += copies
        due["changed"] += 0 if fate == "fine" else 1 + copies
    trace += [Observation(RowKey(f"s{number}"), Content("?"), 2.0) for number in range(strangers)]
    due["unexpected"] = strangers
    shuffle.shuffle(trace)
    verdict = judge(trace, expected)
    assert counts(verdict) == {kind: rows for kind, rows in due.items() if rows}
    assert verdict.is_precise == (not any(due.values()))


def test_the_longest_pause_is_between_two_arrivals() -> None:
    assert longest_pause([1.0, 2.0, 7.0, 8.0], input_ended_s=20.0) == Pause(8.0, 20.0)
    assert longest_pause([1.0, 2.0, 7.0, 8.0], input_ended_s=9.0) == Pause(2.0, 7.0)


def test_the_start_is_no_pause_and_order_does_not_matter() -> None:
    assert longest_pause([103.0, 100.0, 101.0], input_ended_s=103.0) == Pause(101.0, 103.0)


def test_a_pause_that_began_while_input_ran_counts_whole() -> None:
    assert longest_pause([1.0, 2.0, 9.0], input_ended_s=3.0) == Pause(2.0, 9.0)


def test_a_pause_after_the_input_ended_does_not_count() -> None:
    assert longest_pause([1.0, 2.0, 3.5, 30.0], input_ended_s=3.0) == Pause(2.0, 3.5)


@pytest.mark.parametrize("arrivals", [[], [5.0, 6.0]])
def test_nothing_before_the_end_of_the_input_has_no_pause(arrivals: list[float]) -> None:
    assert longest_pause(arrivals, input_ended_s=5.0) is None


def test_a_row_is_keyed_by_its_columns_whatever_their_order() -> None:
    a = keyed({"second": "x", "account": 1, "b": 2, "a": 3}, ("second", "account"))
    b = keyed({"a": 3, "account": 1, "b": 2, "second": "x"}, ("second", "account"))
    assert a == b
    assert a[0] == "second=x account=1"
    assert keyed({"account": 1}, ("second", "account"))[0] == "second=None account=1"
