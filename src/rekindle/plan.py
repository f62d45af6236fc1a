"""Checks the graph, and fuses operators into fragments.

``check`` needs nothing but the declarations. ``fuse`` also needs the traits of each operator, which only
Spark's plan can tell (``node.traits``); it decides where the graph is cut, and says why.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.errors import DeclarationError
from rekindle.guarantees import check_guarantees
from rekindle.keeper.records import REJECTED_SUFFIX
from rekindle.pipeline import Pipeline, StreamDeclaration
from rekindle.recovery.policy import Policy

NEEDS_ROCKSDB = "transformWithState"


@dataclass(frozen=True, slots=True)
class Traits:
    """What Spark's plan tells of one operator. Each list holds the reasons, empty if it is not so."""

    stateful: tuple[str, ...] = ()
    nondeterministic: tuple[str, ...] = ()
    reads_positions_of: frozenset[str] = frozenset()
    has_watermark: bool = False


@dataclass(frozen=True, slots=True)
class Fragment:
    """Operators fused into one query. It is named after the one stream that it publishes."""

    name: str
    operators: tuple[StreamDeclaration, ...]
    inputs: tuple[str, ...]
    node: str
    output_mode: str
    stateful: bool
    deterministic: bool
    has_watermark: bool
    rows_max: int
    partitions: int | None
    state: str
    recovery: Policy
    why: tuple[str, ...]


def check(pipeline: Pipeline) -> None:
    """Raise DeclarationError for the first thing that is wrong with the graph as a whole."""
    if not pipeline.sources:
        raise DeclarationError(
            f"pipeline {pipeline.name!r} has no source",
            detail=str(pipeline.place),
            hint="add one: pipeline.source('lines', rk.sources.Files('in', format='json', schema='...'))",
        )
    known = readable(pipeline)
    for stream in pipeline.streams.values():
        for name in stream.inputs:
            if name not in known:
                raise _unknown(f"stream {stream.name!r} reads", name, known, str(stream.place))
    for sink in pipeline.sinks.values():
        if sink.stream not in known:
            raise _unknown(f"sink {sink.name!r} delivers", sink.stream, known, str(sink.place))
    order(pipeline)
    check_guarantees(pipeline)


def readable(pipeline: Pipeline) -> tuple[str, ...]:
    """Every stream there is: sources, their dead letters, and what operators compute."""
    rejects = [s.name + REJECTED_SUFFIX for s in pipeline.sources.values() if s.source.has_rejects]
    return (*pipeline.sources, *rejects, *pipeline.streams)


def order(pipeline: Pipeline) -> tuple[str, ...]:
    """The operators' streams, inputs first. Raises DeclarationError for a cycle."""
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done or name not in pipeline.streams:
            return
        if name in path:
            cycle = [*path[path.index(name) :], name]
            raise DeclarationError(
                f"the streams read each other in a cycle: {' <- '.join(cycle)}",
                detail="; ".join(f"{s} at {pipeline.streams[s].place}" for s in cycle[:-1]),
                hint="no stream may read itself, directly or through others: break the cycle",
            )
        path.append(name)
        for upstream in pipeline.streams[name].inputs:
            visit(upstream)
        path.pop()
        done.append(name)

    for name in pipeline.streams:
        visit(name)
    return tuple(done)


def fuse(pipeline: Pipeline, traits: Mapping[str, Traits]) -> tuple[Fragment, ...]:
    """Cut the graph into fragments, inputs first."""
    for name, trait in traits.items():
        _refuse_nondeterministic_state(pipeline.streams[name], trait)
        _refuse_state_in_memory(pipeline.streams[name], trait)
    readers: dict[str, list[str]] = {}
    for stream in pipeline.streams.values():
        for name in stream.inputs:
            readers.setdefault(name, []).append(stream.name)
    delivered = {sink.stream for sink in pipeline.sinks.values()}

    group_of = {name: name for name in pipeline.streams}  # each stream -> the stream that its fragment publishes
    why: dict[str, str] = {}
    for name in reversed(order(pipeline)):
        reason = _why_cut(name, pipeline, traits, readers.get(name, []), delivered, group_of)
        if reason is None:
            group_of[name] = group_of[readers[name][0]]
        else:
            why[name] = reason
    return tuple(_fragment(name, pipeline, traits, group_of, why[name]) for name in order(pipeline) if name in why)


def nondeterministic(stream: StreamDeclaration, trait: Traits) -> bool:
    """What the user declares outranks what the plan shows."""
    return bool(trait.nondeterministic) if stream.deterministic is None else not stream.deterministic


def _why_cut(
    name: str,
    pipeline: Pipeline,
    traits: Mapping[str, Traits],
    readers: list[str],
    delivered: Iterable[str],
    group_of: Mapping[str, str],
) -> str | None:
    """Why the stream is published, or None if it is fused into its only reader."""
    stream, trait = pipeline.streams[name], traits[name]
    if name in delivered:
        return "a sink takes it"
    if not readers:
        return "nothing reads it on"
    if len(readers) > 1:
        return f"several read it: {', '.join(sorted(readers))}"
    if stream.keep:
        return "keep=True"
    if nondeterministic(stream, trait):
        return f"not deterministic ({_reasons(stream, trait)}): logged before anybody sees it"
    reader = pipeline.streams[readers[0]]
    if reader.node != stream.node:
        return f"its reader {reader.name} is on node {reader.node}"
    if reader.recovery != stream.recovery:
        return f"its reader {reader.name} recovers in another way"
    if name in traits[reader.name].reads_positions_of:
        return f"its reader {reader.name} reads row positions"
    if trait.stateful:
        group = [other for other, head in group_of.items() if head == group_of[reader.name]]
        for other in group:
            if traits[other].stateful:
                return f"stateful, and so is {other}: one state a fragment"
            if nondeterministic(pipeline.streams[other], traits[other]):
                return f"stateful, and {other} after it is not deterministic"
    return None


def _fragment(
    name: str, pipeline: Pipeline, traits: Mapping[str, Traits], group_of: Mapping[str, str], why: str
) -> Fragment:
    members = tuple(pipeline.streams[s] for s in order(pipeline) if group_of[s] == name)
    own = {m.name for m in members}
    inputs = tuple(dict.fromkeys(i for m in members for i in m.inputs if i not in own))
    stateful = [m for m in members if traits[m.name].stateful]
    reasons = [why]
    if stateful:
        reasons += [f"{m.name} keeps state: {', '.join(traits[m.name].stateful)}" for m in stateful]
    return Fragment(
        name=name,
        operators=members,
        inputs=inputs,
        node=members[-1].node,
        output_mode=stateful[0].output_mode if stateful else "append",
        stateful=bool(stateful),
        deterministic=not any(nondeterministic(m, traits[m.name]) for m in members),
        has_watermark=any(traits[m.name].has_watermark for m in members),
        rows_max=min(m.rows_max for m in members),
        partitions=stateful[0].partitions if stateful else None,
        state=stateful[0].state if stateful else "",
        recovery=members[-1].recovery,
        why=tuple(reasons),
    )


def _refuse_nondeterministic_state(stream: StreamDeclaration, trait: Traits) -> None:
    if trait.stateful and nondeterministic(stream, trait):
        raise DeclarationError(
            f"stream {stream.name!r} is not deterministic and keeps state",
            detail=f"{stream.place}: {_reasons(stream, trait)}; state: {', '.join(trait.stateful)}",
            hint="split it: compute the nondeterministic columns in a stream of their own, which is logged, and "
            "let the stateful stream read that one. If the result does not depend on it (a collect_list that is "
            "sorted afterwards, a table that never changes), declare deterministic=True",
        )


def _refuse_state_in_memory(stream: StreamDeclaration, trait: Traits) -> None:
    if stream.state == "memory" and NEEDS_ROCKSDB in trait.stateful:
        raise DeclarationError(
            f"stream {stream.name!r} cannot keep its state in memory",
            detail=f"{stream.place}: {NEEDS_ROCKSDB} needs RocksDB",
            hint='leave out state="memory"',
        )


def _reasons(stream: StreamDeclaration, trait: Traits) -> str:
    return ", ".join(trait.nondeterministic) or f"declared deterministic={stream.deterministic}"


def _unknown(who: str, name: str, known: Iterable[str], where: str) -> DeclarationError:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return DeclarationError(f"{who} the unknown stream {name!r}", detail=where, hint=hint)
