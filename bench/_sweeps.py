"""Recovery of the word count against one thing that varies: how often layers are shipped, the rate, the state.

A kill takes the disk of the process with it, as if its machine were gone: what is left are the layers in the stores and
the input. Otherwise a node that starts again would find its own checkpoint, whatever the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from bench._figures import median
from bench._runs import Plan, Result
from bench._workload import Workload

PEERS = tuple(
    f"rekindle:{policy}"
    for policy in ("upstream_backup", "source_replay", "rollback", "passive_standby", "active_standby")
)
WORKLOAD = "wordcount"
PLAN = Plan(1, kills=1, lead_s=20.0, disk_too=True)
TAIL_S = 20.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """``values`` of ``parameter`` of the workload, or of the interval where that is None. ``unmoved`` are peers that
    do not depend on it: they run once."""

    about: str
    label: str
    parameter: str | None
    values: Sequence[float]
    fixed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    unmoved: Sequence[str] = ()


SWEEPS = {
    "interval": Sweep(
        "how often layers are shipped", "seconds from one layer to the next", None, (1, 5, 15), unmoved=PEERS[:2]
    ),
    "rate": Sweep("the rate of input", "lines a second, of 10 words each", "rate", (250, 1_000, 4_000)),
    "state": Sweep("the size of the state", "words in the state", "words", (1_000, 10_000, 100_000),
                   MappingProxyType({"window_s": 3600})),
}  # fmt: skip


def settings(sweep: str, workload: Workload, peer: str) -> list[tuple[Workload, float | None]]:
    """The workload and the interval of each run of a peer."""
    axis = SWEEPS[sweep]
    workload = workload.with_parameters(**axis.fixed)
    if axis.parameter is not None:
        return [(workload.with_parameters(**{axis.parameter: value}), None) for value in axis.values]
    if peer in axis.unmoved:
        return [(workload, None)]
    return [(workload, value) for value in axis.values]


def points(results: Sequence[Result], sweep: str, peer: str, value: str) -> list[tuple[float, float]]:
    """By what varies, the median of ``value`` over all kills; those without it are left out."""
    found: dict[float, list[float | None]] = {}
    for result in results:
        if result.peer == peer:
            found.setdefault(where(result, sweep), []).extend(pause[value] for pause in result.pauses)
    line = [(at, middle) for at, values in sorted(found.items()) if (middle := median(values)) is not None]
    return line


def where(result: Result, sweep: str) -> float:
    """The value that varies, in a run."""
    parameter = SWEEPS[sweep].parameter
    if parameter is None:
        return result.interval_s if result.interval_s is not None else SWEEPS[sweep].values[0]
    return float(result.parameters[parameter])
