from __future__ import annotations

import dataclasses
import json

import pytest
from rich.console import Console

from rekindle.cli import facts as facts_module
from rekindle.cli.facts import Facts, Watch
from rekindle.cli.live import render
from rekindle.cli.report import print_json
from rekindle.keeper.records import EpochNumber, Output, Span
from tests.cli.conftest import Ward, words


class Times:
    """A clock and a monotonic clock that stand until they are moved."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def busy(ward: Ward) -> Ward:
    """A source stream that a fragment and a sink read, both of them behind."""
    ward.stream("lines")
    ward.stream("split", "lines", fragment="counts")
    ward.stream("counts", "split", fragment="counts")
    for i in range(3):
        ward.publish("lines", words(*"abcd"[: i + 1]))
    by = ward.node
    ward.keeper.claim("counts", EpochNumber(1), {"lines": Span(0, 2)}, by=by)
    empty = Output((), 0, 0, "0:0:0")
    ward.keeper.publish("counts", EpochNumber(1), {"split": empty, "counts": empty}, by=by)
    ward.keeper.record_delivery("lines_sink", "lines", EpochNumber(1), by=by)
    return ward


def drawn(facts: Facts, *, full: bool = False) -> str:
    console = Console(width=160, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render(facts, title="words", full=full))
    console.file.close()
    return console.export_text()


def test_streams_readers_and_sinks(busy: Ward, times: Times) -> None:
    facts = Watch(busy.keeper, clock=times, monotonic=times).look()
    streams = {stream.stream: stream for stream in facts.streams}
    assert streams["lines"].epoch == 3
    assert streams["lines"].rows == 6
    assert streams["lines"].lags == {"counts": 1, "lines_sink": 2}
    assert streams["split"].lags == {}, "a stream inside its own fragment is not read from outside"
    assert [(sink.sink, sink.stream, sink.epoch, sink.lag) for sink in facts.sinks] == [("lines_sink", "lines", 1, 2)]
    text = drawn(facts)
    assert "counts 1" in text
    assert "lines_sink 2" in text


def test_a_reader_without_a_claim_lags_by_everything(ward: Ward, times: Times) -> None:
    ward.stream("lines")
    ward.stream("counts", "lines")
    ward.publish("lines", words("a"))
    ward.publish("lines", words("b"))
    facts = Watch(ward.keeper, clock=times, monotonic=times).look()
    assert {stream.stream: dict(stream.lags) for stream in facts.streams}["lines"] == {"counts": 2}


def test_an_input_from_outside_is_no_stream(ward: Ward, times: Times) -> None:
    ward.stream("lines", "outside")
    ward.publish("lines", words("a"))
    assert Watch(ward.keeper, clock=times, monotonic=times).look().streams[0].lags == {}


def test_rows_per_second_are_of_the_last_seconds(ward: Ward, times: Times) -> None:
    ward.stream("lines")
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    epoch = ward.publish("lines", words(*"abcdefghij"))
    times.now_s = epoch.published_at_s + 2
    assert watch.look().streams[0].rows_per_s == pytest.approx(5.0)
    times.now_s += facts_module.RATE_WINDOW_S
    later = watch.look().streams[0]
    assert later.rows_per_s == 0
    assert later.rows == 10


def test_another_look_reads_only_what_is_new(ward: Ward, times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    epochs = ward.keeper.epochs

    def counting(stream: str, *, after: int, through: int | None = None, limit: int | None = None) -> object:
        asked.append(after)
        return epochs(stream, after=after, through=through, limit=limit)

    monkeypatch.setattr(ward.keeper, "epochs", counting)
    monkeypatch.setattr(facts_module, "EPOCHS_COUNTED", 3)
    ward.stream("lines")
    for word in "abcde":
        ward.publish("lines", words(word))
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    first = watch.look().streams[0]
    assert (first.rows, first.rows_after_epoch, asked) == (3, 2, [2])
    watch.look()
    assert asked == [2], "an idle stream is not asked again"
    ward.publish("lines", words("f"))
    assert watch.look().streams[0].rows == 4
    assert asked == [2, 5]
    assert "4 since 2" in drawn(watch.look())


def test_nodes_beats_and_what_became_of_them(ward: Ward, times: Times) -> None:
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    assert [(n.node, n.state, n.beat_age_s) for n in watch.look().nodes] == [("main", "starting", None)]
    ward.keeper.beat(ward.node, {})
    assert watch.look().nodes[0].beat_age_s == 0
    times.now_s += 3
    facts = watch.look()
    assert (facts.nodes[0].state, facts.nodes[0].beat_age_s) == ("running", 3)
    assert "3.0s ago" in drawn(facts)
    ward.keeper.fence(ward.node, "test")
    assert watch.look().nodes[0].state == "gone"
    replaced = ward.keeper.enlist("main", code="c0de")
    assert [(n.incarnation, n.state) for n in watch.look().nodes] == [(replaced, "starting")]
    fresh = Watch(ward.keeper, clock=times, monotonic=times).look()
    assert [n.incarnation for n in fresh.nodes] == [replaced], "only the newest incarnation of a node is shown"


def test_a_running_node_says_what_it_does(ward: Ward, times: Times) -> None:
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    ward.keeper.beat(ward.node, {"phase": "opening"})
    assert "opening" in drawn(watch.look())
    ward.keeper.beat(ward.node, {"phase": "ready"})
    assert "running" in drawn(watch.look())
    ward.keeper.want(ward.node, "drain")
    assert "draining" in drawn(watch.look())


def test_failures_and_the_latest_events(ward: Ward, times: Times) -> None:
    for i in range(20):
        ward.keeper.event("made_up", "nobody", number=i)
    ward.keeper.record_failure("counts", EpochNumber(4), reason="KeyError: [red]", traceback="...", by=ward.node)
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    watch.look()
    ward.keeper.event("made_up", "somebody", number=20)
    facts = watch.look()
    assert len(facts.events) == facts_module.EVENTS_SHOWN
    assert facts.events[-1].subject == "somebody"
    text = drawn(facts)
    assert "counts at epoch 4: KeyError: [red]" in text
    assert "number=20" in text


def test_the_same_facts_as_json(busy: Ward, times: Times, capsys: pytest.CaptureFixture[str]) -> None:
    facts = Watch(busy.keeper, clock=times, monotonic=times).look()
    print_json(facts.to_json())
    assert set(json.loads(capsys.readouterr().out)) == {field.name for field in dataclasses.fields(Facts)}


def test_an_empty_home_can_be_drawn(ward: Ward, times: Times) -> None:
    ward.keeper.leave(ward.node)
    assert "no streams yet" in drawn(Watch(ward.keeper, clock=times, monotonic=times).look())


def said(of: int = 2, **roles: str) -> dict[str, object]:
    return {
        "phase": "ready",
        "jvm_pid": 1,
        "failed": [],
        "replicas": {subject: {"role": role, "epoch": 7, "of": of} for subject, role in roles.items()},
    }


def test_redundancy_is_shown_compactly_and_in_full(busy: Ward, times: Times) -> None:
    busy.keeper.beat(busy.node, said(lines="computing", counts="computing", lines_sink="computing"))
    second = busy.keeper.enlist("main.2", code="c0de")
    busy.keeper.beat(second, said(lines="standby", counts="joining", lines_sink="standby"))
    busy.keeper.own("lines", by=busy.node)
    watch = Watch(busy.keeper, clock=times, monotonic=times)
    facts = watch.look()
    assert {r.subject: (r.kind, r.text, r.owner) for r in facts.redundancy} == {
        "lines": ("source", "2 of 2", "main"),
        "counts": ("fragment", "1 of 2: main.2 is joining", ""),
        "lines_sink": ("sink", "2 of 2", ""),
    }
    compact, full = drawn(facts), drawn(facts, full=True)
    assert "1 of 2: main.2 is joining" in compact
    assert "1 joining, 2 standby" in compact
    assert "main computing 7" not in compact
    assert "main computing 7  main.2 joining 7" in full
    busy.keeper.beat(second, said(lines="standby", counts="computing", lines_sink="standby"))
    assert {r.text for r in watch.look().redundancy} == {"2 of 2"}
    busy.keeper.fence(busy.node, "died")
    after = watch.look()
    assert {r.text for r in after.redundancy} == {"1 of 2: main is not there"}
    assert "main (gone)" in drawn(after, full=True)


def test_who_was_promoted_is_shown_under_its_new_name_alone(ward: Ward, times: Times) -> None:
    watch = Watch(ward.keeper, clock=times, monotonic=times)
    warm = ward.keeper.enlist("pool.1", code="c0de")
    dead = ward.keeper.enlist("main", code="c0de")
    assert [(n.node, n.incarnation) for n in watch.look().nodes] == [("main", dead), ("pool.1", warm)]
    ward.keeper.fence(dead, "died")
    ward.keeper.promote(warm, "main")
    ward.keeper.beat(warm, said(1, counts="joining"))
    for each in (watch, Watch(ward.keeper, clock=times, monotonic=times)):
        facts = each.look()
        assert [(n.node, n.incarnation, n.state) for n in facts.nodes] == [("main", warm, "running")]
        assert [r.text for r in facts.redundancy] == ["0 of 1: main is joining"]


def test_dropped_rows_are_counted_and_shown(ward: Ward, times: Times) -> None:
    ward.stream("lines")
    ward.publish("lines", words("a"))
    ward.keeper.claim("lines", EpochNumber(2), {"outside": Span(1, 2)}, by=ward.node)
    ward.keeper.publish("lines", EpochNumber(2), {"lines": Output((), 0, 0, "0:0:0", dropped=1234)}, by=ward.node)
    facts = Watch(ward.keeper, clock=times, monotonic=times).look()
    assert (facts.streams[0].dropped_rows, facts.streams[0].dropped_epochs, facts.streams[0].rows) == (1234, 1, 1)
    assert "1 (1,234 dropped)" in drawn(facts)
