"""The peers of bench/failover.py: plain Spark with a parent that restarts it, and Rekindle under a policy, all with
the same keyed count."""

from __future__ import annotations

from pathlib import Path

from bench._pauses import PLAIN
from bench.peers.base import Peer, Place
from bench.peers.rekindle import Pipeline, Rekindle
from bench.peers.spark import Spark

PIPELINE = Path(__file__).resolve().with_name("failover_pipeline.py")
ROWS_MAX = 1_000_000


def peer(name: str, run: Path, source: Path, cores: int) -> Peer:
    """The peer ``name`` of ``_pauses.PEERS``."""
    place = Place(run, source, cores, rows_max=ROWS_MAX)
    if name == PLAIN:
        return Spark(name, place, [])
    folders = {"BENCH_INPUT": str(source), "BENCH_OUTPUT": str(run / "output")}
    environment = {**folders, "BENCH_ROWS_MAX": str(ROWS_MAX), "BENCH_POLICY": name}
    return Rekindle(name, place, Pipeline(PIPELINE, "counts", name, environment))


def account(peer: Peer) -> tuple[int, int]:
    """By its own record: how many rows of input were computed, and how many were dropped."""
    return peer.account() if isinstance(peer, Rekindle) else (0, 0)
