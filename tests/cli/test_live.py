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


def drawn(facts: Facts) -> str:
    console = Console(width=160, record=True, force_terminal=False, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render(facts, title="words"))
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
