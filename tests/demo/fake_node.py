"""A node of the demonstration without Spark. It claims and publishes as a real one does, epochs without content; what
the sink delivers is what the oracle says, a window at a time, the last one when all input is used up."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from rekindle.demo.oracle import Starts, expected_rows
from rekindle.demo.scale import Scale
from rekindle.home import open_home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Output, Segment, Span, StreamRecord
from rekindle.load import load_pipeline
from rekindle.pipeline import Pipeline
from rekindle.supervisor.processes import start_ticks, this_host
from rekindle.verify.trace import RowKey

TURN_S = 0.1
GENERATORS = ("payments", "logins")
INPUTS = {"payments": (), "logins": (), "matched": GENERATORS, "scores": ("matched",)}
SCALE = Scale(*(int(os.environ[f"FRAUD_{name}"]) for name in ("PAYMENTS_PER_S", "LOGINS_PER_S", "SECONDS", "ACCOUNTS")))


class Node:
    def __init__(self, pipeline: Pipeline, keeper: Keeper, by: Incarnation) -> None:
        self.keeper = keeper
        self.by = by
        self.readers = {name: pipeline.sources[name].source.open(()) for name in GENERATORS}
        for name, inputs in INPUTS.items():
            keeper.record_stream(StreamRecord(name, name, "{}", inputs, "precise"))

    def step(self, name: str) -> None:
        """The next epoch, if there is one; first of all what was claimed and not published when a node died."""
        last = self.keeper.last_claim(name)
        if last is not None and last.epoch > self.keeper.head(name):
            self.publish(name, dict(last.spans))
        elif name in GENERATORS:
            after = None if last is None else last.spans[name].through
            through = self.readers[name].newest(after, 1_000_000)
            if through is not None:
                self.publish(name, {name: Span(after, through)})
        else:
            spans = {i: Span(0 if last is None else last.spans[i].through, self.keeper.head(i)) for i in INPUTS[name]}
            if any(span.through > span.after for span in spans.values()):
                self.publish(name, spans)

    def publish(self, name: str, spans: dict[str, Span]) -> None:
        epoch = EpochNumber(self.keeper.head(name) + 1)
        self.keeper.claim(name, epoch, spans, by=self.by)
        segment = Segment(f"streams/{name}/{epoch}/none.parquet", 1, 1, "0")
        self.keeper.publish(name, epoch, {name: Output((segment,), 1, 1, "1:0:0")}, by=self.by)

    def deliver(self, out: Path) -> None:
        head, taken = self.keeper.head("scores"), self.keeper.delivered("scores_sink")
        for epoch in range(taken + 1, head + 1):
            rows = self.due(out) if epoch == head else []
            hidden = out / f".epoch={epoch}"
            hidden.mkdir()
            (hidden / "part-00000.json").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
            hidden.rename(out / f"epoch={epoch:012d}")
            self.keeper.record_delivery("scores_sink", "scores", EpochNumber(epoch), by=self.by)

    def due(self, out: Path) -> list[dict[str, Any]]:
        """The rows that have not been delivered and whose time has come."""
        claims = [self.keeper.claim_of(name, EpochNumber(1)) for name in GENERATORS]
        start_us = [c.spans[c.fragment].through["start_us"] for c in claims if c is not None]
        rows = [as_row(key) | orjson.loads(content) for key, content in expected_rows(SCALE, Starts(*start_us)).items()]
        windows = sorted({row["second"] for row in rows})
        used_s = time.time() - max(start_us) / 1e6
        through = len(windows) if used_s > SCALE.seconds else min(int(used_s), len(windows) - 1)
        there = {orjson.loads(line)["second"] for f in out.rglob("*.json") for line in f.read_bytes().splitlines()}
        return [row for row in rows if row["second"] in set(windows[:through]) - there]


def as_row(key: RowKey) -> dict[str, Any]:
    second, account = key.split()
    return {"second": second.partition("=")[2], "account": int(account.partition("=")[2])}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    args = parser.parse_args()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    keeper = open_keeper(None, home=open_home(args.home), clock=time.time, patience_s=10)
    by = Incarnation(args.incarnation)
    keeper.present(by, host=this_host(), pid=os.getpid(), pid_started=start_ticks(os.getpid()) or 0)
    node = Node(load_pipeline(args.file), keeper, by)
    mine = [*GENERATORS, "matched"] if args.node == "main" else ["scores"]
    while True:
        for name in mine:
            node.step(name)
        if args.node == "main":
            node.deliver(Path(os.environ["FRAUD_OUT"]))
        replicas = {name: {"role": "computing", "epoch": keeper.head(name) + 1, "of": 1} for name in mine}
        want = keeper.beat(by, {"node": args.node, "phase": "ready", "failed": [], "replicas": replicas})
        if asked or want == "drain":
            keeper.leave(by)
            return 0
        time.sleep(TURN_S)


if __name__ == "__main__":
    sys.exit(main())
