"""From which epoch an empty replica must replay: compared with having computed everything."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.errors import BrokenInvariant
from rekindle.keeper import Keeper
from rekindle.keeper.records import Claim, Epoch, EpochNumber, Incarnation, Output, Segment, Span, StreamRecord
from rekindle.recovery.memory import NOTHING, Memory, oldest_needed
from tests.keeper.place import Place, damage
from tests.recovery.streaming import Counts, Join, Query, Repeats, Row

ME = Incarnation(1)
STEP_US = 4_000
ONE, TWO = {"l": 3}, {"l": 3, "r": 6}


def output_of(rows: list[Row], watermark_us: int | None = None) -> Output:
    segments = (Segment("x.parquet", len(rows), 1, "00"),) if rows else ()
    times = [row.time_us for row in rows]
    return Output(segments, len(rows), 1, "d", min(times, default=None), max(times, default=None), watermark_us)


@dataclass
class Book:
    """A keeper's records of two inputs and of fragment ``f``, in memory."""

    inputs: dict[str, list[list[Row]]] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    watermarks_us: list[int] = field(default_factory=list)

    def claim_of(self, fragment: str, epoch: EpochNumber) -> Claim | None:
        return self.claims[epoch - 1] if 0 < epoch <= len(self.claims) else None

    def epoch(self, stream: str, epoch: EpochNumber) -> Epoch | None:
        return Epoch(stream, epoch, "f", output_of([], self.watermarks_us[epoch - 1]), ME, 0.0)

    def first_reaching(self, stream: str, time_us: int, *, after: int, through: int) -> EpochNumber | None:
        for epoch in range(after + 1, through + 1):
            if any(row.time_us >= time_us for row in self.inputs[stream][epoch - 1]):
                return EpochNumber(epoch)
        return None

    def rows(self, epoch: int) -> dict[str, list[Row]]:
        spans = self.claims[epoch - 1].spans
        return {
            name: [row for rows in self.inputs[name][span.after : span.through] for row in rows]
            for name, span in spans.items()
        }


@dataclass(frozen=True)
class Kind:
    """A query, and the memory that its plan shows."""

    make: Callable[[], Query]
    memory: Memory


def kind(make: Callable[[], Query], span_us: int, names: dict[str, int]) -> Kind:
    return Kind(make, Memory(frozenset(names), span_us, len(names)))


def counts(names: dict[str, int], length_us: int, slide_us: int, *, update: bool) -> Kind:
    return kind(lambda: Counts(names, length_us=length_us, slide_us=slide_us, update=update), length_us, names)


def joined(span_us: int, *, outer: bool) -> Kind:
    return kind(lambda: Join(TWO, early_us=3_000, late_us=9_000, outer=outer), span_us, TWO)


KINDS = {
    "tumbling-append": counts(ONE, 8_000, 8_000, update=False),
    "tumbling-update": counts(ONE, 8_000, 8_000, update=True),
    "sliding-append": counts(ONE, 9_000, 4_000, update=False),
    "sliding-update": counts(TWO, 9_000, 4_000, update=True),
    "by-event-time": counts(TWO, 0, 0, update=True),
    "repeats": kind(lambda: Repeats(ONE), 0, ONE),
    "inner-join": joined(9_001, outer=False),
    "outer-join": joined(9_001 + 3_001, outer=True),
}


@st.composite
def books(draw: st.DrawFn, names: frozenset[str]) -> Book:
    """Event times that move on with the epochs, with rows far behind and far ahead; claims that take 0 to 3 epochs."""
    row = st.tuples(st.integers(-8 * STEP_US, 3 * STEP_US), st.integers(0, 1), st.booleans())
    book = Book()
    for name in sorted(names):
        drawn = draw(st.lists(st.lists(row, max_size=3), min_size=4, max_size=14))
        book.inputs[name] = [
            [Row(max(0, i * STEP_US + shift), key, seen) for shift, key, seen in rows] for i, rows in enumerate(drawn)
        ]
    through = dict.fromkeys(book.inputs, 0)
    for takes in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=14)):
        claimed(book, through, dict(zip(sorted(names), takes, strict=False)))
    return book


def claimed(book: Book, through: dict[str, int], takes: dict[str, int]) -> None:
    spans = {}
    for name, rows in book.inputs.items():
        spans[name] = Span(through[name], min(len(rows), through[name] + takes[name]))
        through[name] = spans[name].through
    book.claims.append(Claim("f", EpochNumber(len(book.claims) + 1), spans, ME))


def run(query: Query, book: Book, first: int) -> dict[int, Counter[Hashable]]:
    return {epoch: query.run(book.rows(epoch)) for epoch in range(first, len(book.claims) + 1)}


def note_watermarks(query: Query, book: Book) -> dict[int, Counter[Hashable]]:
    """Run from the first epoch on, and put each epoch's watermark on record."""
    outputs = {}
    book.watermarks_us.clear()
    for epoch in range(1, len(book.claims) + 1):
        book.watermarks_us.append(query.watermark_us)
        outputs[epoch] = query.run(book.rows(epoch))
    return outputs


def after(outputs: dict[int, Counter[Hashable]], head: int) -> dict[int, Counter[Hashable]]:
    return {epoch: rows for epoch, rows in outputs.items() if epoch > head}


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_replay_from_the_oldest_needed_epoch_goes_on_like_the_original(name: str, data: st.DataObject) -> None:
    made = KINDS[name]
    book = data.draw(books(made.memory.inputs))
    original = note_watermarks(made.make(), book)
    before = EpochNumber(1)
    for head in range(len(book.claims) + 1):
        first = oldest_needed(cast(Keeper, book), "f", made.memory, EpochNumber(head))
        assert after(run(made.make(), book, first), head) == after(original, head), (head, first)
        assert before <= first <= head + 1
        assert oldest_needed(cast(Keeper, book), "f", made.memory, EpochNumber(head), since=before) == first
        before = first


def random_book(seed: int, names: frozenset[str]) -> Book:
    chance = random.Random(seed)
    book = Book()
    for name in sorted(names):
        book.inputs[name] = [
            [
                Row(
                    max(0, i * STEP_US + chance.randint(-6 * STEP_US, STEP_US)),
                    chance.randint(0, 1),
                    chance.random() < 0.9,
                )
                for _ in range(chance.randint(0, 3))
            ]
            for i in range(16)
        ]
    through = dict.fromkeys(book.inputs, 0)
    while len(book.claims) < 16:
        claimed(book, through, {name: chance.randint(0, 2) for name in book.inputs})
    return book


def goes_wrong(made: Kind, later: int) -> int:
    """In how many of many runs the replay's later output differs, if it starts ``later`` epochs after the answer."""
    wrong = 0
    for seed in range(150):
        book = random_book(seed, made.memory.inputs)
        original = note_watermarks(made.make(), book)
        for head in range(4, 14):
            first = oldest_needed(cast(Keeper, book), "f", made.memory, EpochNumber(head)) + later
            wrong += after(run(made.make(), book, first), head) != after(original, head)
    return wrong


@pytest.mark.parametrize("name", KINDS)
def test_one_epoch_less_is_not_enough(name: str) -> None:
    assert goes_wrong(KINDS[name], 0) == 0
    assert goes_wrong(KINDS[name], 1) > 0


def test_an_outer_join_reaches_further_than_what_it_keeps() -> None:
    assert goes_wrong(joined(9_001, outer=False), 0) == 0
    assert goes_wrong(joined(9_001, outer=True), 0) > 0


def test_repeats_within_the_watermark_have_no_bound() -> None:
    """Whether a row is a repeat hangs on the row before it, and so on back: however far one reaches, it is too near."""
    chain = [[Row(1_000 + i * 2_500, key=0)] for i in range(60)]
    book = Book({"l": chain})
    through = {"l": 0}
    for _ in chain:
        claimed(book, through, {"l": 1})

    def make() -> Query:
        return Repeats(ONE, within=True)

    original = note_watermarks(make(), book)
    head = 50
    wrong = [first for first in range(1, head) if after(run(make(), book, first), head) != after(original, head)]
    assert wrong and min(wrong) < 5


# -- on a keeper ---------------------------------------------------------------------------------


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    place = Place(tmp_path, None)
    yield place.open()
    place.close()


def fill(keeper: Keeper, seconds: list[int | None], watermarks: list[int | None]) -> Incarnation:
    """Stream l with a row of each of these times an epoch, and fragment f, which takes them in one by one."""
    me = keeper.enlist("n", code="")
    keeper.record_stream(StreamRecord("l", "l", "{}", (), "precise"))
    keeper.record_stream(StreamRecord("f", "f", "{}", ("l",), "precise"))
    for i, (second, watermark) in enumerate(zip(seconds, watermarks, strict=True)):
        epoch = EpochNumber(i + 1)
        keeper.claim("l", epoch, {"outside": Span(i or None, i + 1)}, by=me)
        output = output_of([Row((second or 0) * 1_000_000, 0)])
        if second is None:
            output = replace(output, event_time_min_us=None, event_time_max_us=None)
        keeper.publish("l", epoch, {"l": output}, by=me)
        keeper.claim("f", epoch, {"l": Span(i, i + 1)}, by=me)
        keeper.publish("f", epoch, {"f": output_of([], None if watermark is None else watermark * 1_000_000)}, by=me)
    return me


MINUTE = Memory(frozenset({"l"}), 60_000_000, 1)
E0, E1, E6 = EpochNumber(0), EpochNumber(1), EpochNumber(6)


def test_the_bound_is_the_watermark_of_the_head_less_the_span(keeper: Keeper) -> None:
    fill(keeper, [10, 39, 40, 90, 95, 100], [0, 0, 10, 50, 80, 100])
    assert oldest_needed(keeper, "f", MINUTE, E6) == 3  # 40 is the bound itself
    assert oldest_needed(keeper, "f", Memory(frozenset({"l"}), 0, 1), E6) == 6
    assert oldest_needed(keeper, "f", MINUTE, EpochNumber(5)) == 2


def test_nothing_is_known_without_a_watermark_on_record(keeper: Keeper) -> None:
    fill(keeper, [10, 20, 500, 600], [0, 0, None, None])
    assert oldest_needed(keeper, "f", MINUTE, EpochNumber(4)) == 1


def test_rows_without_event_times_are_needed(keeper: Keeper) -> None:
    fill(keeper, [10, None, 500, 600], [0, 0, 500, 600])
    assert oldest_needed(keeper, "f", MINUTE, EpochNumber(4)) == 2


def test_at_the_beginning_and_without_state(keeper: Keeper) -> None:
    assert oldest_needed(keeper, "f", MINUTE, E0) == 1
    assert oldest_needed(keeper, "f", NOTHING, E6) == 7
    with pytest.raises(BrokenInvariant, match="epoch 1 of 'f' is not on record"):
        oldest_needed(keeper, "f", MINUTE, E1)


def test_trimmed_records_end_the_search(keeper: Keeper) -> None:
    fill(keeper, [10, 39, 40, 90, 95, 100], [0, 0, 10, 50, 80, 100])
    damage(keeper, "DELETE FROM {}claims WHERE fragment = 'f' AND epoch < 3")
    assert oldest_needed(keeper, "f", MINUTE, E6) == 3
    damage(keeper, "DELETE FROM {}claims WHERE fragment = 'f' AND epoch < 4")
    assert oldest_needed(keeper, "f", MINUTE, E6) == 3  # below the oldest kept one: trimmed too early
    damage(keeper, "DELETE FROM {}epochs WHERE stream = 'l' AND epoch < 5")
    assert oldest_needed(keeper, "f", MINUTE, E6) == 5
