"""Walking the plans that Spark makes of a DataFrame, in its JVM. Nothing runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATEFUL = {
    "Aggregate": "an aggregate",
    "Distinct": "distinct",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "GlobalLimit": "limit",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
}
WATERMARK = "spark.watermarkDelayMs"  # Spark marks the column with it


def kind(node: Any) -> str:
    """What a plan's node or an expression is: the name of its class."""
    return str(node.getClass().getSimpleName())


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in sequence(plan.children()):
        yield from nodes(child)
    for child in sequence(plan.innerChildren()):
        if kind(child) in ("CTERelationDef", "SubqueryAlias"):
            yield from nodes(child)


def sequence(scala: Any) -> list[Any]:
    return [scala.apply(i) for i in range(scala.size())]


def state_of(node: Any) -> str | None:
    """What state a node of a streaming plan keeps, None if it keeps none."""
    if kind(node) == "Join":
        return "a join of streams" if node.left().isStreaming() and node.right().isStreaming() else None
    if kind(node) in STATEFUL and any(child.isStreaming() for child in sequence(node.children())):
        return STATEFUL[kind(node)]
    return None


def input_of(relation: Any) -> str:
    """The stream that a StreamingRelation reads: its files lie in a folder of that name."""
    return Path(relation.dataSource().options().get("path").get()).name
