"""Where a benchmark's pipeline file finds its folders, its policy and its parameters: in the environment.

    place = here({"rate": 1000})
    pipeline = rk.Pipeline("words", recovery=place.recovery, settings=place.settings)
    pipeline.source("lines", place.files("lines", "seq long, line string"), rows_max=place.rows_max)
    ...
    pipeline.sink("counts", place.sink())

Without an environment the folders are ``in`` and ``out`` beside the caller's, so that the file runs by itself as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.recovery import Policy

POLICIES: dict[str, Policy] = {
    "rollback": rk.Rollback(),
    "source_replay": rk.Rollback(copies=0),
    "gap": rk.Gap(),
    "upstream_backup": rk.UpstreamBackup(),
    "passive_standby": rk.PassiveStandby(interval=1),
    "active_standby": rk.ActiveStandby(replicas=2),
    "pool": rk.Rollback(),
}
"""What is measured, by name. 'pool' is Rollback() with a warm node waiting."""

NODES = {"passive_standby": 2, "active_standby": 2, "pool": 2}
"""How many nodes each has for one place; 1 unless named."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a run gives to the pipeline. ``interval_s`` is how often layers are shipped, where it is not the policy's
    own; ``state`` where its streams keep theirs."""

    input: Path
    output: Path
    policy: str
    interval_s: float | None
    rows_max: int
    parameters: Mapping[str, Any]
    state: str = "rocksdb"

    @property
    def recovery(self) -> Policy:
        if self.interval_s is not None:
            if self.policy == "passive_standby":
                return rk.PassiveStandby(interval=self.interval_s)
            if self.policy == "active_standby":
                return rk.ActiveStandby(replicas=2, interval=self.interval_s)
            if self.policy in ("rollback", "pool"):
                return rk.Rollback(interval=self.interval_s)
        return POLICIES[self.policy]

    @property
    def settings(self) -> rk.Settings:
        return rk.Settings(pool=1 if self.policy == "pool" else 0)

    def files(self, name: str, schema: str) -> rk.sources.Files:
        """The source of the input ``name``."""
        return rk.sources.Files(self.input / name, format="parquet", schema=schema)

    def sink(self) -> rk.sinks.Files:
        """The sink of the output that is judged."""
        return rk.sinks.Files(self.output, format="parquet")


def here(parameters: Mapping[str, Any]) -> Place:
    """The place of this run. ``parameters`` are the workload's defaults."""
    interval = os.environ.get("BENCH_INTERVAL_S")
    return Place(
        input=Path(os.environ.get("BENCH_INPUT", "in")),
        output=Path(os.environ.get("BENCH_OUTPUT", "out")),
        policy=os.environ.get("BENCH_POLICY", "rollback"),
        interval_s=float(interval) if interval else None,
        rows_max=int(os.environ.get("BENCH_ROWS_MAX", "1000000")),
        parameters={**parameters, **json.loads(os.environ.get("BENCH_PARAMETERS", "{}"))},
        state=os.environ.get("BENCH_STATE", "rocksdb"),
    )


def environment(place: Place) -> dict[str, str]:
    """What ``here`` reads, for a child process."""
    said = {
        "BENCH_INPUT": str(place.input),
        "BENCH_OUTPUT": str(place.output),
        "BENCH_POLICY": place.policy,
        "BENCH_ROWS_MAX": str(place.rows_max),
        "BENCH_PARAMETERS": json.dumps(dict(place.parameters)),
        "BENCH_STATE": place.state,
    }
    return said if place.interval_s is None else {**said, "BENCH_INTERVAL_S": str(place.interval_s)}
