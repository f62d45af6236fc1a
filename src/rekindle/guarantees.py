"""What each stream, and each sink, guarantees: the weakest of what its policy, its inputs and its sink give.

It follows from the declarations alone, since operators are fused only where they recover in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import DeclarationError
from rekindle.keeper.records import REJECTED_SUFFIX
from rekindle.pipeline import Pipeline, SinkDeclaration, SourceDeclaration, StreamDeclaration
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Policy, Rollback, UpstreamBackup
from rekindle.recovery.policy import GUARANTEES, PRECISE

NEITHER = "may lose and may repeat"
"""Where something at-most-once meets something at-least-once."""

_POLICIES: tuple[Policy, ...] = (Rollback(), PassiveStandby(), ActiveStandby(), UpstreamBackup(), Gap())


@dataclass(frozen=True, slots=True)
class _Given:
    """What a stream gives, and who keeps it from giving more."""

    guarantee: str
    because: str = ""


def guarantees(pipeline: Pipeline) -> Mapping[str, str]:
    """For every stream, dead letters too: 'precise', 'at-least-once', 'at-most-once' or NEITHER. The graph has no
    cycle. Raises DeclarationError for a source that gives something else."""
    return {name: given.guarantee for name, given in _streams(pipeline).items()}


def sink_guarantees(pipeline: Pipeline) -> Mapping[str, str]:
    """For every sink, what its receiver sees of the stream after crashes."""
    streams = _streams(pipeline)
    return {s.name: weakest(streams[s.stream].guarantee, _of_sink(s)) for s in pipeline.sinks.values()}


def check_guarantees(pipeline: Pipeline) -> None:
    """Raise DeclarationError for the first stream that cannot give, itself or through a sink, what it declares."""
    streams = _streams(pipeline)
    for stream in pipeline.streams.values():
        if stream.guarantee is not None and not satisfies(streams[stream.name].guarantee, stream.guarantee):
            raise _refused(stream, streams[stream.name])
    for sink in pipeline.sinks.values():
        declared = pipeline.streams[sink.stream].guarantee if sink.stream in pipeline.streams else None
        given = weakest(streams[sink.stream].guarantee, _of_sink(sink))
        if declared is not None and not satisfies(given, declared):
            raise DeclarationError(
                f"stream {sink.stream!r} is declared {declared}, but its sink {sink.name!r} {_gives(given)}",
                detail=f"{sink.place}: {sink.sink.describe()} is {_of_sink(sink)} by itself; the stream is declared at "
                f"{pipeline.streams[sink.stream].place}",
                hint="take a sink that is precise (rk.sinks.Files, for example), or declare what this one gives",
            )


def weakest(one: str, other: str) -> str:
    """What is left of both.

    >>> weakest("precise", "at-most-once"), weakest("at-least-once", "at-most-once")
    ('at-most-once', 'may lose and may repeat')
    """
    if PRECISE in (one, other):
        return other if one == PRECISE else one
    return one if one == other else NEITHER


def satisfies(given: str, declared: str) -> bool:
    """Whether whoever asked for ``declared`` may be given ``given``. Precise is good enough for everybody."""
    return given in (PRECISE, declared)


def _streams(pipeline: Pipeline) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for source in pipeline.sources.values():
        given = _of_source(source)
        found[source.name] = given
        if source.source.has_rejects:
            found[source.name + REJECTED_SUFFIX] = given

    def visit(name: str) -> _Given:
        if name not in found:
            stream = pipeline.streams[name]
            own = stream.recovery.guarantee
            given = _Given(
                own, "" if own == PRECISE else f"{name} at {stream.place} recovers by {_named(stream.recovery)}"
            )
            for upstream in stream.inputs:
                given = _meet(given, visit(upstream))
            found[name] = given
        return found[name]

    for name in pipeline.streams:
        visit(name)
    return found


def _meet(one: _Given, other: _Given) -> _Given:
    together = weakest(one.guarantee, other.guarantee)
    if together == one.guarantee:
        return one
    if together == other.guarantee:
        return other
    return _Given(together, f"{one.because}; {other.because}")


def _of_source(source: SourceDeclaration) -> _Given:
    """A source may add conditions to the word, which are for people."""
    words = [word for word in GUARANTEES if source.source.guarantee.startswith(word)]
    if not words:
        raise DeclarationError(
            f"source {source.name!r} gives the unknown guarantee {source.source.guarantee!r}",
            detail=str(source.place),
            hint=f"one of {', '.join(GUARANTEES)}, and after it on what condition",
        )
    because = "" if words[0] == PRECISE else f"source {source.name} at {source.place} is {words[0]} by itself"
    return _Given(words[0], because)


def _of_sink(sink: SinkDeclaration) -> str:
    if sink.sink.guarantee not in GUARANTEES:
        raise DeclarationError(
            f"sink {sink.name!r} gives the unknown guarantee {sink.sink.guarantee!r}",
            detail=str(sink.place),
            hint=f"one of {', '.join(GUARANTEES)}",
        )
    return sink.sink.guarantee


def _refused(stream: StreamDeclaration, given: _Given) -> DeclarationError:
    declared = str(stream.guarantee)
    able = [_named(policy) for policy in _POLICIES if satisfies(policy.guarantee, declared)]
    return DeclarationError(
        f"stream {stream.name!r} is declared {declared}, but {_gives(given.guarantee)}",
        detail=f"{stream.place}: {given.because}",
        hint=f"policies that give {declared}: {', '.join(able)}; what an input has lost or repeated, none brings back",
    )


def _named(policy: Policy) -> str:
    return f"{type(policy).__name__}()"


def _gives(guarantee: str) -> str:
    return guarantee if guarantee == NEITHER else f"gives only {guarantee}"
