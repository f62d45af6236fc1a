"""What the user declares, and what is refused at once, with the file and line."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

import rekindle as rk
import rekindle.pipeline
from rekindle.errors import DeclarationError
from rekindle.pipeline import DEFAULT_NODE


@pytest.fixture
def pipeline() -> rk.Pipeline:
    made = rk.Pipeline("p")
    made.source("lines", rk.sources.Rate(10))
    return made


def test_a_declared_function_stays_the_function(pipeline: rk.Pipeline) -> None:
    @pipeline.stream
    def plain(lines: int) -> int:
        return lines + 1

    @pipeline.stream(output_mode="update", keep=True, node="other", rows_max=5, partitions=3)
    def with_options(lines: int) -> int:
        return lines + 2

    assert (plain(1), with_options(1)) == (2, 3)
    assert pipeline.streams["plain"].operator is plain
    declared = pipeline.streams["with_options"]
    assert (declared.output_mode, declared.keep, declared.node, declared.rows_max, declared.partitions) == (
        "update",
        True,
        "other",
        5,
        3,
    )


def test_the_parameters_are_the_inputs_and_defaults_are_not(pipeline: rk.Pipeline) -> None:
    @pipeline.stream
    def joined(lines: Any, other: Any, threshold: int = 3) -> Any:
        return lines

    assert pipeline.streams["joined"].inputs == ("lines", "other")


def test_an_explicit_name_survives_a_rename_of_the_function(pipeline: rk.Pipeline) -> None:
    @pipeline.stream(name="counts")
    def counts_v2(lines: Any) -> Any:
        return lines

    assert list(pipeline.streams) == ["counts"]


def test_every_declaration_knows_its_place(pipeline: rk.Pipeline) -> None:
    @pipeline.stream
    def here(lines: Any) -> Any:
        return lines

    pipeline.sink("here", rk.sinks.Console())
    places = [pipeline.place, pipeline.sources["lines"].place, pipeline.streams["here"].place]
    places.append(pipeline.sinks["here_sink"].place)
    assert {p.file for p in places} == {__file__}
    assert len({p.line for p in places}) == 4


def test_nodes(pipeline: rk.Pipeline) -> None:
    pipeline.sink("lines", rk.sinks.Console(), node="out")
    assert pipeline.nodes() == (DEFAULT_NODE, "out")


NAMES = ["", "Lines", "1st", "a-b", "a.b", "../x", "a/b", "a b", "a\n", "é", "x" * 64, "_x", "rekindle_x", "x_rejected"]


@pytest.mark.parametrize("name", NAMES)
def test_unsafe_and_reserved_names_are_refused_everywhere(pipeline: rk.Pipeline, name: str) -> None:
    attempts: list[Callable[[], Any]] = [
        lambda: rk.Pipeline(name),
        lambda: pipeline.source(name, rk.sources.Rate(1)),
        lambda: pipeline.source("ok", rk.sources.Rate(1), node=name),
        lambda: pipeline.stream(name=name)(lambda lines: lines),
        lambda: pipeline.stream(name="ok", node=name)(lambda lines: lines),
        lambda: pipeline.sink("lines", rk.sinks.Console(), name=name),
        lambda: pipeline.sink("lines", rk.sinks.Console(), node=name),
    ]
    for attempt in attempts:
        with pytest.raises(DeclarationError, match=r"not a usable name|reserved name") as caught:
            attempt()
        assert __file__ in caught.value.detail
    assert not pipeline.streams


def test_a_name_is_declared_once(pipeline: rk.Pipeline) -> None:
    with pytest.raises(DeclarationError, match="'lines' is declared twice") as caught:
        pipeline.source("lines", rk.sources.Rate(1))
    assert str(pipeline.sources["lines"].place) in caught.value.detail
    with pytest.raises(DeclarationError, match="'lines' is declared twice"):
        pipeline.stream(name="lines")(lambda lines: lines)
    pipeline.sink("lines", rk.sinks.Console())
    with pytest.raises(DeclarationError, match="sink 'lines_sink' is declared twice"):
        pipeline.sink("lines", rk.sinks.Console())


def test_a_stream_and_a_sink_have_different_names(pipeline: rk.Pipeline) -> None:
    pipeline.sink("lines", rk.sinks.Console())
    sink = pipeline.sinks["lines_sink"]
    attempts: list[Callable[[], Any]] = [
        lambda: pipeline.stream(name="lines_sink")(lambda lines: lines),
        lambda: pipeline.source("lines_sink", rk.sources.Rate(1)),
    ]
    for attempt in attempts:
        with pytest.raises(DeclarationError, match="stream 'lines_sink' has the name of a sink") as caught:
            attempt()
        assert __file__ in caught.value.detail and str(sink.place) in caught.value.detail
        assert "name='...'" in caught.value.hint
    pipeline.stream(name="counts_sink")(lambda lines: lines)
    for attempt in (
        lambda: pipeline.sink("counts", rk.sinks.Console()),
        lambda: pipeline.sink("counts", rk.sinks.Console(), name="lines"),
    ):
        with pytest.raises(DeclarationError, match="has the name of a stream") as caught:
            attempt()
        assert "and the stream at" in caught.value.detail
    assert list(pipeline.sinks) == ["lines_sink"] and list(pipeline.streams) == ["counts_sink"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_mode": "apend"}, "unknown output mode 'apend'"),
        ({"rows_max": 0}, "rows_max must be a whole number above 0"),
        ({"state": "disk"}, "keeps its state in the unknown place 'disk'"),
        ({"partitions": 0}, "partitions must be a whole number above 0"),
    ],
)
def test_impossible_options(pipeline: rk.Pipeline, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        pipeline.stream(name="s", **options)(lambda lines: lines)


def test_inputs_must_be_named(pipeline: rk.Pipeline) -> None:
    with pytest.raises(DeclarationError, match="its inputs must be named"):
        pipeline.stream(name="s")(lambda *inputs: inputs)
    with pytest.raises(DeclarationError, match="has no input"):
        pipeline.stream(name="s")(lambda: None)


@pytest.mark.parametrize("settings", [{"heartbeat_s": 5.0, "lease_s": 1.0}, {"heartbeat_s": 0.0}, {"attempts_max": 0}])
def test_settings_that_cannot_work(settings: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        rk.Settings(**settings)


def test_the_examples_in_the_docstrings() -> None:
    assert doctest.testmod(rekindle.pipeline).failed == 0
    assert doctest.testmod(rekindle.pipeline).attempted > 0
