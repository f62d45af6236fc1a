"""A home whose replicas are played by hand, on real records and real files, without Spark, in virtual time.

lines   a source            sums    stateful, layers, reads lines     out    a sink of sums
plain   stateless, lines    window  bounded memory, reads plain       tail   gap, reads plain, a sink of it: ends
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from sqlalchemy import event

from rekindle.home import Home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import Claim, EpochNumber, Incarnation, Output, Segment, Span
from rekindle.node.ownership import Ownership
from rekindle.node.trim import Trim
from rekindle.pipeline import Pipeline, Settings
from rekindle.plan import Fragment, Traits, fuse
from rekindle.recovery import Gap, Rollback, UpstreamBackup
from rekindle.sinks import Console
from rekindle.sources import Rate
from tests.keeper.place import stream

N = EpochNumber
WINDOW = 4
STATEFUL = Traits(stateful=("an aggregate",))


def declared(retain_s: float) -> tuple[Pipeline, tuple[Fragment, ...]]:
    pipeline = Pipeline("house", settings=Settings(retain_s=retain_s))
    pipeline.source("lines", Rate(1))
    pipeline.stream(name="sums", recovery=Rollback())(lambda lines: lines)
    pipeline.stream(name="plain")(lambda lines: lines)
    pipeline.stream(name="window", recovery=UpstreamBackup())(lambda plain: plain)
    pipeline.stream(name="tail", recovery=Gap())(lambda plain: plain)
    pipeline.sink("sums", Console(), name="out")
    pipeline.sink("tail", Console(), name="ends")
    return pipeline, fuse(pipeline, {"sums": STATEFUL, "plain": Traits(), "window": STATEFUL, "tail": STATEFUL})


class Household:
    """``careless`` records are not durable, and much faster."""

    def __init__(self, folder: Path, *, retain_s: float = 0.0, careless: bool = False) -> None:
        self.now_s = 1000.0
        self.home = Home(folder, "house", "id", "sqlite")
        for name in ("streams", "logs", "work"):
            (folder / name).mkdir(parents=True)
        self.keeper: Keeper = open_keeper(None, home=self.home, clock=lambda: self.now_s)
        if careless:
            engine = self.keeper._store._engine
            event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF"))
            engine.dispose()
        self.pipeline, self.fragments = declared(retain_s)
        self.inputs = {"lines": (), **{f.name: f.inputs for f in self.fragments}}
        for name, inputs in self.inputs.items():
            self.keeper.record_stream(stream(name, None, *inputs))
        self.me = self.keeper.enlist("main", code="")
        self.stopping = threading.Event()
        self.trim = self.trimmer()

    def trimmer(self) -> Trim:
        """A worker as it is after a restart: it knows nothing."""
        context: Any = SimpleNamespace(
            keeper=self.keeper,
            home=self.home,
            pipeline=self.pipeline,
            analysis=SimpleNamespace(fragments=self.fragments),
            settings=self.pipeline.settings,
            incarnation=self.me,
            clock=lambda: self.now_s,
            monotonic=lambda: self.now_s,
            stopping=self.stopping,
            ownership=Ownership(self.keeper, self.me, self.stopping, _die),
        )
        return Trim(context, lambda fragment, head: N(max(1, head - WINDOW + 1)))

    def close(self) -> None:
        self.keeper.close()

    # -- what replicas do ----------------------------------------------------------------------------

    def beat(self, **in_hand: int) -> None:
        """A heartbeat that reports the epochs in hand."""
        self.beat_of(self.me, in_hand)

    def beat_of(self, by: Incarnation, in_hand: Mapping[str, int]) -> None:
        replicas = {name: {"role": "computing", "epoch": epoch, "of": 1} for name, epoch in in_hand.items()}
        self.keeper.beat(by, {"replicas": replicas})

    def step(self, name: str, *, take: int | None = None, rows: int = 1) -> Claim:
        """The next epoch of a fragment: claimed (``take`` epochs of each input, or all there are), and published."""
        claim = self.claim(name, take=take)
        self.publish(name, claim.epoch, rows=rows)
        return claim

    def claim(self, name: str, *, take: int | None = None) -> Claim:
        last = self.keeper.last_claim(name)
        epoch = N(last.epoch + 1 if last is not None else 1)
        if not self.inputs[name]:
            return self.keeper.claim(name, epoch, {name: Span(epoch - 1 or None, epoch)}, by=self.me)
        spans = {}
        for i in self.inputs[name]:
            known = last is not None and i in last.spans
            after = last.spans[i].through if last is not None and known else max(0, self.keeper.oldest(i) - 1)
            head = self.keeper.head(i)
            spans[i] = Span(after, head if take is None else min(head, after + take))
        return self.keeper.claim(name, epoch, spans, by=self.me)

    def publish(self, name: str, epoch: int, *, rows: int = 1) -> None:
        path = self.folder(name, epoch) / f"{epoch:012d}-00000.parquet"
        if rows:
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x" * 10)
        segments = (Segment(str(path.relative_to(self.home.root)), rows, 10, "ab"),) if rows else ()
        output = Output(segments, rows, 10 * len(segments), f"{rows}:0:0")
        assert self.keeper.publish(name, N(epoch), {name: output}, by=self.me).won

    def folder(self, name: str, epoch: int) -> Path:
        return self.home.streams / name / f"{epoch:012d}-{self.me}-1"

    def safe_point(self, name: str, epoch: int) -> None:
        newest = self.keeper.safe_point(name)
        built_on = newest.epoch if newest is not None else N(0)
        marks: Mapping[str, Any] = {"manifest": "m", "checksum": "c", "stores": ("s",), "bytes": 1}
        self.keeper.record_safe_point(name, N(epoch), batch=epoch, built_on=built_on, by=self.me, **marks)

    def deliver(self, sink: str, name: str) -> None:
        """Everything that there is."""
        after = self.keeper.delivered(sink) or max(0, self.keeper.oldest(name) - 1)
        for epoch in range(after + 1, self.keeper.head(name) + 1):
            self.keeper.record_delivery(sink, name, N(epoch), by=self.me)

    def everything(self, epochs: int) -> None:
        """So many epochs of all, taken by everybody, with a safe point at the head."""
        for _ in range(epochs):
            for name in self.inputs:
                self.step(name)
        self.safe_point("sums", self.keeper.head("sums"))
        self.keeper.retire_safe_points("sums", keep=1, by=self.me)
        self.deliver("out", "sums")
        self.deliver("ends", "tail")

    # -- what is there -------------------------------------------------------------------------------

    def turns(self, count: int = 2, **in_hand: int) -> None:
        """Turns of the worker, with the heartbeats between them that it waits for."""
        for _ in range(count):
            self.trim.turn()
            self.beat(**in_hand)
            self.beat(**in_hand)

    def oldest(self) -> dict[str, int]:
        return {name: self.keeper.oldest(name) for name in self.inputs}

    def first_claims(self) -> dict[str, int]:
        found = {name: self.keeper.first_claim(name) for name in self.inputs}
        return {name: claim.epoch for name, claim in found.items() if claim is not None}

    def folders(self, name: str) -> list[int]:
        folder = self.home.streams / name
        return sorted(int(path.name[:12]) for path in folder.iterdir()) if folder.exists() else []


def _die(error: BaseException) -> NoReturn:
    raise error
