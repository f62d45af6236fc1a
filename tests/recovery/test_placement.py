"""Which nodes a pipeline has, and what each of them hosts."""

from __future__ import annotations

from typing import Any

import rekindle as rk
from rekindle.plan import Traits, fuse
from rekindle.recovery.placement import beside, hosts, in_pool, lost_places, node_of, nodes_of, pool_of, slot_of, slots


def mixed() -> rk.Pipeline:
    pipeline = rk.Pipeline("p", settings=rk.Settings(pool=2))
    pipeline.source("rows", rk.sources.Rate(10))
    pipeline.source("others", rk.sources.Rate(10), node="b")

    @pipeline.stream(recovery=rk.ActiveStandby(3))
    def active(rows: Any) -> Any: ...

    @pipeline.stream(recovery=rk.PassiveStandby())
    def passive(rows: Any) -> Any: ...

    @pipeline.stream
    def rolled(rows: Any) -> Any: ...

    @pipeline.stream
    def plain(rows: Any) -> Any: ...

    return pipeline


def test_the_policies_that_want_most_replicas_decide_how_many_nodes_there_are() -> None:
    pipeline = mixed()
    assert nodes_of(pipeline) == ("b", "main", "main.2", "main.3")
    assert (slots(pipeline, "main"), slots(pipeline, "b")) == (3, 1)
    assert pool_of(pipeline) == ("pool.1", "pool.2")
    assert [in_pool(name) for name in ("main.2", "pool.1")] == [False, True]
    assert slot_of(node_of("main", 3)) == ("main", 3) and slot_of(node_of("main", 1)) == ("main", 1)


def test_state_is_hosted_as_often_as_its_policy_wants_and_the_rest_everywhere() -> None:
    pipeline = mixed()
    stateful = Traits(stateful=("an aggregate",))
    traits = dict.fromkeys(("active", "passive", "rolled"), stateful) | {"plain": Traits()}
    fragments = {f.name: f for f in fuse(pipeline, traits)}
    where = {
        name: [node for node in nodes_of(pipeline) if hosts(node, fragment.node, fragment)]
        for name, fragment in fragments.items()
    }
    assert where == {
        "active": ["main", "main.2", "main.3"],
        "passive": ["main", "main.2"],
        "rolled": ["main"],
        "plain": ["main", "main.2", "main.3"],
    }
    assert [node for node in nodes_of(pipeline) if hosts(node, "main")] == ["main", "main.2", "main.3"]
    assert [node for node in nodes_of(pipeline) if hosts(node, "b")] == ["b"]


def test_a_place_is_lost_with_the_last_of_its_nodes() -> None:
    pipeline = mixed()
    assert lost_places(pipeline, ["main", "main.2"]) == frozenset()
    assert lost_places(pipeline, ["main", "main.2", "main.3"]) == {"main"}
    assert lost_places(pipeline, ["b", "pool.1"]) == {"b"}


def test_streams_that_recover_in_different_ways_are_not_fused() -> None:
    pipeline = rk.Pipeline("p")
    pipeline.source("rows", rk.sources.Rate(10))

    @pipeline.stream(recovery=rk.ActiveStandby())
    def cleaned(rows: Any) -> Any: ...

    @pipeline.stream
    def shown(cleaned: Any) -> Any: ...

    cut, _ = fuse(pipeline, {"cleaned": Traits(), "shown": Traits()})
    assert cut.name == "cleaned" and cut.why == ("its reader shown recovers in another way",)


def test_where_only_a_source_is_the_policy_of_the_pipeline_counts() -> None:
    pipeline = rk.Pipeline("p", recovery=rk.ActiveStandby())
    pipeline.source("rows", rk.sources.Rate(10), node="edge")

    @pipeline.stream(recovery=rk.Rollback())
    def shown(rows: Any) -> Any: ...

    assert (slots(pipeline, "edge"), slots(pipeline, "main")) == (2, 1)
    assert beside("score", 3) == ("score", "score.2", "score.3")
