"""Placement: which nodes there are, and what each of them hosts, from the declarations alone.

A policy that wants k replicas adds the nodes ``main.2`` to ``main.k`` beside ``main``. They are alike: whichever of
them lives can own what only one may do. What keeps no state of ours (sources, stateless fragments, sinks) every one
of them can take over; a stateful fragment is hosted by as many as its policy wants.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.pipeline import POOL, Pipeline
from rekindle.plan import Fragment


def nodes_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The names of all nodes that host something, those of each place in the order of their slots."""
    return tuple(node for place in pipeline.nodes() for node in beside(place, slots(pipeline, place)))


def pool_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The names of the warm nodes that host nothing yet."""
    return tuple(f"{POOL}.{number}" for number in range(1, pipeline.settings.pool + 1))


def slots(pipeline: Pipeline, place: str) -> int:
    """How many nodes there are where the declarations say ``node=place``: as many as the policy needs that wants most.
    Sources and sinks have no policy of their own, so where there are any the pipeline's counts too."""
    wanted = [stream.recovery.replicas for stream in pipeline.streams.values() if stream.node == place]
    if place in {s.node for s in pipeline.sources.values()} | {s.node for s in pipeline.sinks.values()}:
        wanted.append(pipeline.recovery.replicas)
    return max(wanted, default=1)


def beside(place: str, count: int) -> tuple[str, ...]:
    """The names of the first ``count`` nodes of a place.

    >>> beside("main", 2)
    ('main', 'main.2')
    """
    return tuple(node_of(place, slot) for slot in range(1, count + 1))


def node_of(place: str, slot: int) -> str:
    return place if slot == 1 else f"{place}.{slot}"


def slot_of(node: str) -> tuple[str, int]:
    """The place and the slot that a node's name stands for."""
    place, _, number = node.partition(".")
    return place, int(number or 1)


def in_pool(node: str) -> bool:
    return node.startswith(f"{POOL}.")


def hosts(node: str, place: str, fragment: Fragment | None = None) -> bool:
    """Whether a node hosts what was declared for ``place``: a source, a sink, or a fragment."""
    of, slot = slot_of(node)
    wanted = slot if fragment is None or not fragment.stateful else fragment.recovery.replicas
    return of == place and slot <= max(1, wanted)


def lost_places(pipeline: Pipeline, given_up: Iterable[str]) -> frozenset[str]:
    """The places of which every node is given up."""
    gone = set(given_up)
    return frozenset(place for place in pipeline.nodes() if gone.issuperset(beside(place, slots(pipeline, place))))
