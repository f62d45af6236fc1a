"""The peers of the suite, by name.

spark, spark_tuned        plain Structured Streaming, with Spark's defaults and with what makes it faster
flink, flink_tuned        Apache Flink, with its defaults and with short heartbeats and bundles of rows
flink:job_manager         flink_tuned, where a kill hits the job manager instead of a task manager
rekindle                  Rekindle under its default policy; rekindle:POLICY under another one
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from bench import _place
from bench._workload import Workload, WorkloadError
from bench.peers.base import Peer, Place
from bench.peers.flink import JOB, TASKS, Flink
from bench.peers.rekindle import Pipeline, Rekindle
from bench.peers.spark import Spark, workload_query

SPARK, SPARK_TUNED, FLINK, FLINK_TUNED, REKINDLE = "spark", "spark_tuned", "flink", "flink_tuned", "rekindle"
FLINK_JOB_MANAGER = "flink:job_manager"
POLICIES = tuple(f"{REKINDLE}:{policy}" for policy in _place.POLICIES)
FLINKS = (FLINK, FLINK_TUNED, FLINK_JOB_MANAGER)
MEMORY = f"{REKINDLE}:memory"
PEERS = (SPARK, SPARK_TUNED, *FLINKS, REKINDLE, MEMORY, *POLICIES)


def picked_peers(names: Sequence[str]) -> list[str]:
    """The names, if there are such peers. Raises WorkloadError for one that is not there."""
    for name in names:
        if name not in PEERS:
            near = difflib.get_close_matches(name, PEERS, 1)
            raise WorkloadError(
                f"there is no peer {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
                f"there are: {', '.join(PEERS)}",
            )
    return list(dict.fromkeys(names))


def runs(name: str, workload: Workload) -> bool:
    """Whether the peer has the workload."""
    if name in FLINKS:
        return workload.flink is not None
    return workload.query is not None or name not in (SPARK, SPARK_TUNED)


def make_peer(
    name: str, workload: Workload, place: Place, say: Callable[[str], None], *, interval_s: float | None = None
) -> Peer:
    """``interval_s`` is how often layers, or checkpoints, are made, where it is not the peer's own."""
    if name in (SPARK, SPARK_TUNED):
        query = workload_query(workload.name, workload.parameters, tuned=name == SPARK_TUNED)
        return Spark(name, place, query)
    if name in FLINKS:
        dies = JOB if name == FLINK_JOB_MANAGER else TASKS[0]
        return Flink(name, place, workload, tuned=name != FLINK, say=say, dies=dies, interval_s=interval_s)
    policy = "rollback" if name in (REKINDLE, MEMORY) else name.removeprefix(f"{REKINDLE}:")
    state = "memory" if name == MEMORY else "rocksdb"
    output = place.run / "output"
    said = _place.Place(place.source, output, policy, interval_s, place.rows_max, workload.parameters, state)
    return Rekindle(name, place, Pipeline(workload.pipeline, workload.stream, policy, _place.environment(said)))
