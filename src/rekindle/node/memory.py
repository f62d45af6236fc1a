"""How far back the state of a fragment reaches, read from the plan that Spark makes of it.

The optimised plan is read, since it is what runs: there the conditions that users write after a join have become
part of it. What the figures mean is said in ``recovery.memory``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.errors import DeclarationError
from rekindle.node.plans import WATERMARK, input_of, kind, nodes, sequence, state_of
from rekindle.plan import Fragment
from rekindle.recovery.memory import NOTHING, Memory
from rekindle.streams.digest import event_time_column

SESSION = "spark.sessionWindow"  # Spark marks such a column with it
PROBES_MS = (1_700_000_000_000, 1_800_000_000_000)
UNBOUNDED = {
    "DeduplicateWithinWatermark": "whether a row counts as a repeat depends on the row before it, of that on the one "
    "before, and so on: there is no longest chain",
    "GlobalLimit": "limit counts rows from the first one on",
}
ARBITRARY = "what it keeps, and for how long, is for its own code to decide"
HINT = "give it another policy, for example recovery=rk.Rollback()"


class Unbounded(Exception):
    """Why nothing is known of how far back a state reaches, and what can be done about it."""

    def __init__(self, reason: str, hint: str = HINT) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Definition:
    """What a column is: an expression over the output of ``below``; a column of a relation where that is a leaf."""

    expression: Any
    below: Any


@dataclass(frozen=True, slots=True)
class Reach:
    """A column of event time: from which inputs it comes, and how long a row of it counts (a window's length)."""

    inputs: frozenset[str]
    span_us: int


def memory_of(fragment: Fragment, frame: DataFrame, schemas: Mapping[str, StructType]) -> Memory:
    """The memory of ``fragment``, which computes ``frame`` from streaming frames of its inputs.

    Raises DeclarationError if there is no bound, or none that can be told from the plan.
    """
    if not fragment.stateful:
        return NOTHING
    analysed = frame._jdf.queryExecution().analyzed()
    spark: Any = frame.sparkSession
    plan = spark._jsparkSession.sessionState().optimizer().execute(analysed)
    try:
        return _Reader(schemas, spark._jvm, fragment.output_mode).memory(plan)
    except Unbounded as error:
        raise DeclarationError(
            f"stream {fragment.name!r} cannot have upstream backup",
            detail=f"{fragment.operators[-1].place}: {error.reason}",
            hint=error.hint,
        ) from error


class _Reader:
    def __init__(self, schemas: Mapping[str, StructType], jvm: Any, output_mode: str) -> None:
        self._schemas = schemas
        self._jvm = jvm
        self._output_mode = output_mode

    def memory(self, plan: Any) -> Memory:
        stateful = [node for node in nodes(plan) if state_of(node) is not None]
        if not stateful:
            return NOTHING
        if len(stateful) > 1:
            chain = ", ".join(str(state_of(node)) for node in stateful)
            raise Unbounded(
                f"it keeps more than one state ({chain})",
                "make each stateful operation a stream of its own; keep=True keeps them apart",
            )
        (node,) = stateful
        watermarks = [n for n in nodes(plan) if kind(n) == "EventTimeWatermark"]
        reach = self._reach(node)
        moving = [self._event_time(w.child(), w.eventTime()).inputs for w in watermarks]
        entering = frozenset(input_of(leaf) for leaf in nodes(node) if kind(leaf) == "StreamingRelation")
        if entering - reach.inputs:
            raise Unbounded(f"rows of {min(entering - reach.inputs)!r} enter its state without an event time")
        return Memory(reach.inputs.union(*moving), reach.span_us, len(watermarks))

    def _reach(self, node: Any) -> Reach:
        if kind(node) == "Join":
            return self._of_join(node)
        if kind(node) == "Aggregate":
            if self._output_mode == "complete":
                raise Unbounded("in complete mode no group is ever closed", "use output_mode='append' or 'update'")
            return self._of_key(node.child(), sequence(node.groupingExpressions()), "the columns that it groups by")
        if kind(node) == "Deduplicate":
            return self._of_key(node.child(), sequence(node.keys()), "the columns that tell repeats")
        raise Unbounded(f"{state_of(node)}: {UNBOUNDED.get(kind(node), ARBITRARY)}")

    def _of_key(self, below: Any, key: Sequence[Any], columns: str) -> Reach:
        """The state of a key goes when its event time, or the end of its window, is behind the watermark."""
        marked = [column for column in key if _is_event_time(column)]
        if not marked:
            raise Unbounded(
                f"there is no event time under a watermark among {columns}, so the state is kept forever",
                f"call withWatermark('TIME', ...) on the input, and have F.window('TIME', ...) or TIME among {columns}",
            )
        if len(marked) > 1:
            raise Unbounded(f"there are several event times among {columns}: {', '.join(c.name() for c in marked)}")
        return self._of_key_column(below, marked[0])

    def _of_key_column(self, below: Any, column: Any) -> Reach:
        if column.metadata().contains(SESSION):
            raise Unbounded("a session window has no longest length", "use F.window(...), or another policy")
        if kind(column.dataType()) == "StructType":
            return self._window(below, column)
        known = [c for c in sequence(below.constraints().toSeq()) if kind(c) == "IsNotNull"]
        if not any(kind(c.child()) == "AttributeReference" and _id(c.child()) == _id(column) for c in known):
            name = column.name()
            raise Unbounded(
                f"{name!r} may be null, and what is kept of rows without event time is kept forever",
                f"drop them first: .where('{name} IS NOT NULL')",
            )
        return self._event_time(below, column)

    def _of_join(self, join: Any) -> Reach:
        sides = (join.left(), join.right())
        times = []
        for side, name in zip(sides, ("left", "right"), strict=True):
            marked = [column for column in sequence(side.output()) if _is_event_time(column)]
            if len(marked) != 1:
                found = "several event times" if marked else "no event time"
                raise Unbounded(
                    f"the {name} side of the join has {found} under a watermark",
                    "call withWatermark('TIME', 'DELAY') on both inputs, and keep that one column up to the join",
                )
            times.append(marked[0])
        keys = self._jvm.org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(join)
        if not keys.isDefined():
            raise Unbounded("the join has no equality between its sides")
        pairs = list(zip(sequence(keys.get()._2()), sequence(keys.get()._3()), strict=True))
        timed = [pair for pair in pairs if any(map(_is_event_time, pair))]
        if timed:
            return self._of_join_key(sides, timed[0])
        left, right = (self._event_time(side, time) for side, time in zip(sides, times, strict=True))
        spans = (self._behind_us(join, keys.get()._4(), 0, times), self._behind_us(join, keys.get()._4(), 1, times))
        kept = [max(0, span) for span in spans]
        # A row outlives those that it has met, and an outer join must know of them.
        span_us = max(kept) if join.joinType().sql() == "INNER" else sum(kept)
        return Reach(left.inputs | right.inputs, span_us)

    def _of_join_key(self, sides: Sequence[Any], pair: Sequence[Any]) -> Reach:
        """The sides are joined on their event time, or on a window over it: both go with the key."""
        if not all(map(_is_event_time, pair)):
            raise Unbounded("an event time is joined with a column that is none")
        left, right = (
            self._window(side, column) if kind(column.dataType()) == "StructType" else self._event_time(side, column)
            for side, column in zip(sides, pair, strict=True)
        )
        if left.span_us != right.span_us:
            raise Unbounded("windows of two lengths are joined")
        return Reach(left.inputs | right.inputs, left.span_us)

    def _behind_us(self, join: Any, condition: Any, side: int, times: Sequence[Any]) -> int:
        """How far behind the watermark Spark keeps the rows of one side of a join."""
        own, other = (join.left(), join.right())[:: 1 - 2 * side]
        helper = self._jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
        found = []
        for at_ms in PROBES_MS:
            watermark = self._jvm.scala.Some(at_ms)
            kept = helper.getStateValueWatermark(own.outputSet(), other.outputSet(), condition, watermark)
            by_event_time = helper.getStateValueWatermark(
                times[side].references(), times[1 - side].references(), condition, watermark
            )
            if kept.isDefined() and by_event_time.isDefined():
                found.append((at_ms - int(kept.get())) * 1000)
        if len(found) < len(PROBES_MS) or len(set(found)) > 1:
            raise Unbounded(
                f"the condition of the join does not say how long {times[side].name()!r} of its "
                f"{('left', 'right')[side]} side is waited for",
                "bound it: ... AND right.TIME BETWEEN left.TIME AND left.TIME + INTERVAL 1 MINUTE",
            )
        return found[0]

    # -- columns -------------------------------------------------------------------------------------

    def _event_time(self, below: Any, column: Any) -> Reach:
        """The inputs whose recorded event time this column is, unchanged."""
        inputs = set()
        for definition in _definitions(below, _id(column)):
            if kind(definition.expression) != "AttributeReference" or kind(definition.below) != "StreamingRelation":
                raise Unbounded(
                    f"the watermark is on {column.name()!r}, which is computed",
                    "compute it in a stream of its own (keep=True) as its first timestamp, and put the watermark there",
                )
            name = input_of(definition.below)
            recorded = event_time_column(self._schemas[name])
            if definition.expression.name() != recorded:
                raise Unbounded(
                    f"the watermark is on {definition.expression.name()!r} of {name!r}, whose event time on record is "
                    f"{recorded!r}: its first timestamp",
                    "make it the stream's first timestamp column",
                )
            inputs.add(name)
        return Reach(frozenset(inputs), 0)

    def _window(self, below: Any, column: Any) -> Reach:
        """The inputs that a window's time comes from, and its length."""
        inputs, lengths = frozenset[str](), set()
        for definition in _definitions(below, _id(column)):
            lengths.add(_length_us(definition.expression))
            times = {_id(a): a for a in sequence(definition.expression.references().toSeq())}
            if len(times) != 1:
                raise Unbounded(f"the window {column.name()!r} is not over one column")
            inputs |= self._event_time(definition.below, next(iter(times.values()))).inputs
        (length,) = lengths if len(lengths) == 1 else (None,)
        if length is None:
            raise Unbounded(f"{column.name()!r} is not a window that F.window makes")
        return Reach(inputs, length)


def _definitions(plan: Any, column: int) -> Iterator[Definition]:
    """Where a column of the plan's output comes from, through renamings; several where plans are united."""
    if kind(plan) == "Project":
        (item,) = (c for c in sequence(plan.projectList()) if _id(c) == column)
        yield from _through(item.child() if kind(item) == "Alias" else item, plan.child())
    elif kind(plan) in ("Expand", "Union"):
        index = [_id(c) for c in sequence(plan.output())].index(column)
        if kind(plan) == "Expand":
            for projection in sequence(plan.projections()):
                yield from _through(projection.apply(index), plan.child())
        else:
            for child in sequence(plan.children()):
                yield from _definitions(child, _id(child.output().apply(index)))
    else:
        children = [c for c in sequence(plan.children()) if column in map(_id, sequence(c.output()))]
        if children:
            yield from _definitions(children[0], column)
        else:
            yield Definition(next(c for c in sequence(plan.output()) if _id(c) == column), plan)


def _through(expression: Any, below: Any) -> Iterator[Definition]:
    if kind(expression) == "AttributeReference":
        yield from _definitions(below, _id(expression))
    else:
        yield Definition(expression, below)


def _length_us(window: Any) -> int | None:
    """Of the struct that F.window makes: its end is its start and a literal. None if it is something else."""
    if kind(window) != "CreateNamedStruct":
        return None
    values = sequence(window.valExprs())
    if len(values) != 2:
        return None
    start, end = map(_instant, values)
    if start is None or kind(end) != "Add" or kind(end.right()) != "Literal" or not end.left().semanticEquals(start):
        return None
    return int(end.right().value())


def _instant(bound: Any) -> Any:
    """The microseconds that a bound of a window is made of."""
    while kind(bound) in ("KnownNullable", "PreciseTimestampConversion"):
        bound = bound.child()
    return bound


def _is_event_time(column: Any) -> bool:
    return kind(column) == "AttributeReference" and bool(column.metadata().contains(WATERMARK))


def _id(column: Any) -> int:
    return int(column.exprId().id())
