"""The pipelines that are simulated: every recovery policy, with and without state, in combinations that a seed picks.

Operators are plain functions over plans (``paper``), and do not depend on where epochs end, so what a sink must have
in the end follows from the input alone.

    lines, clicks   sources
    plain           stateless: drops some rows, doubles others
    sums            stateful: running count and sum by key
    window          stateful with a watermark, bounded memory: counts by window
    tail            sums under gap recovery
    both            stateful, reads two streams
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyspark.sql.types import LongType, StructType

from rekindle.keeper.records import Position, Span
from rekindle.node.traits import Analysis
from rekindle.pipeline import Pipeline, Settings
from rekindle.plan import Traits, fuse
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Policy, Rollback, UpstreamBackup
from rekindle.recovery.memory import Memory
from rekindle.sinks.base import Delivery, Sink, Writer
from rekindle.sources.base import Reader, Source
from tests.simulation.paper import Plan, Row, State

WINDOW_US = 5000
STEP_US = 1000
KEYS = 3
SCHEMA = StructType().add("n", LongType())
ROWS_MAX = 6


# -- operators ---------------------------------------------------------------------------------------


def plain(row: Row) -> list[Row]:
    if row["n"] % 5 == 0:
        return []
    return [{**row, "v": row["v"] * 2}] * (2 if row["n"] % 7 == 0 else 1)


def sums(state: State, inputs: Sequence[Sequence[Row]], watermark_us: int) -> list[Row]:
    out = []
    for row in inputs[0]:
        count, total = state.get(f"k{row['k']}", (0, 0))
        state[f"k{row['k']}"] = [count + 1, total + row["v"]]
        out.append({"n": row["n"], "k": row["k"], "count": count + 1, "sum": total + row["v"]})
    return out


def window(state: State, inputs: Sequence[Sequence[Row]], watermark_us: int) -> list[Row]:
    for row in inputs[0]:
        start = row["ts"] - row["ts"] % WINDOW_US
        state[f"{start}"] = state.get(f"{start}", 0) + 1
    closed = sorted(int(start) for start in state if int(start) + WINDOW_US <= watermark_us)
    return [{"start": start, "count": state.pop(f"{start}")} for start in closed]


def both(state: State, inputs: Sequence[Sequence[Row]], watermark_us: int) -> list[Row]:
    out = []
    for side, rows in enumerate(inputs):
        for row in rows:
            state["all"] = state.get("all", 0) + row["v"]
            out.append({"side": side, "n": row["n"], "all": state["all"]})
    return out


# -- sources and sinks -------------------------------------------------------------------------------


def rows_of(source: str, after: int, through: int) -> list[Row]:
    salt = len(source)
    return [{"n": n, "k": (n * salt) % KEYS, "v": n * n % 97, "ts": n * STEP_US} for n in range(after + 1, through + 1)]


@dataclass
class Drip(Source):
    """``limit`` rows, ``rate`` a second. How many an epoch takes is left to chance, so no two propose alike."""

    name: str
    limit: int
    rate: float
    now_s: Callable[[], float]
    random: Random

    def schema(self, spark: Any) -> StructType:
        return SCHEMA

    def open(self, history: Iterable[Position]) -> Reader:
        list(history)
        return DripReader(self)

    @property
    def needs_history(self) -> bool:
        return False

    @property
    def has_rejects(self) -> bool:
        return False

    def describe(self) -> str:
        return "drip"


@dataclass
class DripReader(Reader):
    drip: Drip

    def newest(self, after: Position | None, rows_max: int) -> Position | None:
        drip = self.drip
        start = 0 if after is None else after["n"]
        there = min(drip.limit, int((drip.now_s() - 1000.0) * drip.rate))
        if there <= start:
            return None
        through = min(there, start + drip.random.randint(1, rows_max))
        position = {"n": through, "of": drip.name}
        return position if drip.random.random() < 0.5 else dict(reversed(position.items()))

    def read(self, span: Span, batch: Any) -> None:
        start = 0 if span.after is None else span.after["n"]
        for first in range(start, span.through["n"], 3):
            batch.add_table(rows_of(self.drip.name, first, min(first + 3, span.through["n"])))


@dataclass
class Box(Sink):
    """Gives every epoch to ``take``."""

    take: Callable[[Delivery], None]

    def open(self) -> Writer:
        return BoxWriter(self.take)

    @property
    def guarantee(self) -> str:
        return "precise"

    def describe(self) -> str:
        return "box"


@dataclass
class BoxWriter(Writer):
    take: Callable[[Delivery], None]

    def deliver(self, delivery: Delivery) -> None:
        self.take(delivery)


# -- pipelines ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Specimen:
    """A pipeline, and what must come out of it."""

    pipeline: Pipeline
    analysis: Analysis
    limits: dict[str, int]
    described: str

    def expected(self, stream: str) -> list[Row] | None:
        """What the sinks of a stream have in the end; None if that follows from the claims only."""
        if stream in ("both", "tail") or any(self._has_gap(name) for name in self._before(stream)):
            return None
        return self._whole(stream)

    def has_gap(self, stream: str) -> bool:
        return self._has_gap(stream)

    def _has_gap(self, stream: str) -> bool:
        declared = self.pipeline.streams.get(stream)
        return declared is not None and isinstance(declared.recovery, Gap)

    def _before(self, stream: str) -> list[str]:
        declared = self.pipeline.streams.get(stream)
        above = [name for i in declared.inputs for name in self._before(i)] if declared is not None else []
        return [stream, *above]

    def _whole(self, stream: str) -> list[Row]:
        if stream in self.limits:
            return rows_of(stream, 0, self.limits[stream])
        (name,) = self.pipeline.streams[stream].inputs
        rows = self._whole(name)
        if stream == "plain":
            return [made for row in rows for made in plain(row)]
        if stream == "window":
            return window({}, [rows], rows[-1]["ts"])
        return sums({}, [rows], 0)


def shipped(random: Random) -> dict[str, Any]:
    stores = random.choice([(), ("s1",), ("s1", "s2"), ("s1", "s2")])
    return {"stores": stores, "copies": random.randint(1, max(1, len(stores))), "interval": random.choice([0.5, 2.0])}


def policy(random: Random) -> Policy:
    kind = random.randrange(6)
    if kind < 2:
        return Rollback(**shipped(random))
    if kind == 2:
        return Rollback(copies=0)
    if kind == 3:
        return PassiveStandby(**shipped(random))
    return ActiveStandby(**shipped(random))


def specimen(random: Random, now_s: Callable[[], float], take: Callable[[Delivery], None]) -> Specimen:
    """The pipeline that a seed picks."""
    pool = random.choice([0, 0, 0, 1])
    retain_s = random.choice([0.0, 0.0, 2.0, 60.0])
    settings = Settings(
        heartbeat_s=0.5,
        lease_s=2.0,
        start_s=6.0,
        zombie_s=4.0,
        restarts_max=1000,
        settle_s=0.3,
        pace_s=0.2,
        attempts_max=6,
        pool=pool,
        retain_s=retain_s,
    )
    pipeline = Pipeline("simulation", settings=settings)
    traits: dict[str, Traits] = {}
    limits = {"lines": random.randint(12, 30)}
    kinds = random.choice(
        [
            ("plain", "sums"),
            ("sums",),
            ("plain",),
            ("window",),
            ("tail",),
            ("plain", "tail"),
            ("plain", "window"),
            ("both",),
        ]
    )
    if "both" in kinds:
        limits["clicks"] = random.randint(5, 20)
    for name, limit in limits.items():
        source = Drip(name, limit, random.choice([3.0, 6.0, 20.0]), now_s, Random(random.random()))
        pipeline.source(name, source, rows_max=ROWS_MAX)
    above = "lines"
    told = []
    for kind in kinds:
        recovery: Policy = policy(random)
        if kind == "window":
            recovery = UpstreamBackup()
        elif kind == "tail" or (kind == "plain" and random.random() < 0.1):
            recovery = Gap()
        operator, trait = _operator(kind, above)
        traits[kind] = trait
        pipeline.stream(name=kind, recovery=recovery, rows_max=random.choice([3, 8, 100]), keep=random.random() < 0.8)(
            operator
        )
        told.append(f"{kind} of {', '.join(pipeline.streams[kind].inputs)}: {recovery}")
        above = kind
    pipeline.sink(above, Box(take), name="out")
    if len(kinds) > 1 and random.random() < 0.3:
        pipeline.sink(kinds[0], Box(take), name="early")
    fragments = fuse(pipeline, traits)
    memories = {f.name: Memory(frozenset(f.inputs), WINDOW_US, 1) for f in fragments if f.recovery.needs_bounded_memory}
    schemas = dict.fromkeys([*limits, *kinds], SCHEMA)
    described = "; ".join([f"{limits}", *told, f"pool {pool}, retain_s {retain_s:g}"])
    return Specimen(pipeline, Analysis(schemas, traits, {}, fragments, memories), limits, described)


def _operator(kind: str, above: str) -> tuple[Callable[..., Any], Traits]:
    """The operator, whose parameter is named after its input."""

    def each(frame: Plan) -> Plan:
        return frame.each(plain)

    def folded(function: Any) -> Callable[[Plan], Plan]:
        return lambda frame: frame.fold(function)

    if kind == "both":
        return lambda lines, clicks: lines.fold(both, clicks), Traits(stateful=("made up",))
    made = each if kind == "plain" else folded(window if kind == "window" else sums)
    trait = Traits() if kind == "plain" else Traits(stateful=("made up",), has_watermark=kind == "window")
    if above == "lines":
        return lambda lines: made(lines), trait
    return lambda plain: made(plain), trait
