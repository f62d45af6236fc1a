"""What Flink is told: its settings, and a workload as a job in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench._workload import FLINK_TYPES, Workload, fields

CHECKPOINT_S = 1.0
MONITOR = "100 ms"
TASK_MANAGERS = 2
TASK_HEAP_MB = 1024
FRAMEWORK_MB = 128
NETWORK_MB = 128
MANAGED_MB = 256
METASPACE_MB = 256
OVERHEAD_MB = 192
TUNED = {
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": "2 s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "100 ms",
}
TUNED_SQL = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "50000",
}
"""Rows are put out in bundles, as micro-batches do, not one for each row that comes in."""


def settings(run: Path, ports: Mapping[str, int], *, tuned: bool, interval_s: float | None = None) -> dict[str, str]:
    """Of the cluster: one job manager, two task managers with one slot each, on loopback, exactly once."""
    interval = interval_s or CHECKPOINT_S
    said = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": str(ports["rpc"]),
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.heap.size": "512m",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": str(ports["rest"]),
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": "1",
        "taskmanager.cpu.cores": "1.0",
        "taskmanager.memory.framework.heap.size": f"{FRAMEWORK_MB}m",
        "taskmanager.memory.framework.off-heap.size": f"{FRAMEWORK_MB}m",
        "taskmanager.memory.task.heap.size": f"{TASK_HEAP_MB}m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": f"{NETWORK_MB}m",
        "taskmanager.memory.network.max": f"{NETWORK_MB}m",
        "taskmanager.memory.managed.size": f"{MANAGED_MB}m",
        "taskmanager.memory.jvm-metaspace.size": f"{METASPACE_MB}m",
        "taskmanager.memory.jvm-overhead.min": f"{OVERHEAD_MB}m",
        "taskmanager.memory.jvm-overhead.max": f"{OVERHEAD_MB}m",
        "parallelism.default": str(TASK_MANAGERS),
        "execution.checkpointing.interval": f"{round(interval * 1000)} ms",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{run}/checkpoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "io.tmp.dirs": f"{run}/tmp",
        "web.tmpdir": f"{run}/tmp",
    }
    return {**said, **(TUNED if tuned else {})}


def heap_flags(name: str) -> list[str]:
    """Of the JVM of a process, as Flink's own scripts would work them out."""
    if name == "job":
        return ["-Xmx512m", f"-XX:MaxMetaspaceSize={METASPACE_MB}m"]
    heap, direct = FRAMEWORK_MB + TASK_HEAP_MB, FRAMEWORK_MB + NETWORK_MB
    limits = [f"-XX:MaxDirectMemorySize={direct}m", f"-XX:MaxMetaspaceSize={METASPACE_MB}m"]
    return [f"-Xmx{heap}m", f"-Xms{heap}m", *limits]


def script(workload: Workload, source: Path, output: Path, *, tuned: bool, checkpoint: Path | None) -> str:
    """The job. ``checkpoint`` is where it goes on from."""
    if workload.flink is None:
        raise ValueError(f"{workload.name} has no query for Flink")
    said = {
        "execution.runtime-mode": "streaming",
        "table.local-time-zone": "UTC",
        "table.exec.source.idle-timeout": "1 s",
        "pipeline.name": workload.name,
        **(TUNED_SQL if tuned else {}),
    }
    if checkpoint is not None:
        said["execution.state-recovery.path"] = f"file://{checkpoint}"
    lines = [f"SET '{name}' = '{value}';" for name, value in said.items()]
    lines += [_source(workload, name, source / name) for name in workload.inputs]
    lines.append(_sink(workload, output))
    query = workload.flink.strip()
    for name, value in workload.parameters.items():
        query = query.replace(f"{{{name}}}", str(value))
    names = ", ".join(_quoted(workload.names))
    if workload.mode == "append":
        lines.append(f"INSERT INTO `output`\nSELECT {names} FROM (\n{query}\n);")
    else:
        lines.append(f"CREATE TEMPORARY VIEW `updates` AS\n{query};")
        lines.append(
            f"INSERT INTO `output`\nSELECT {names} FROM TO_CHANGELOG(input => TABLE `updates`)\n"
            "WHERE op IN ('INSERT', 'UPDATE_AFTER');"
        )
    return "\n".join(lines) + "\n"


def _source(workload: Workload, name: str, folder: Path) -> str:
    """A watermark needs milliseconds; the files say their unit themselves."""
    types = {column: FLINK_TYPES[kind] for column, kind in fields(workload.inputs[name]).items()}
    watermark = ""
    if workload.time_column in types:
        types[workload.time_column] = "TIMESTAMP_LTZ(3)"
        late = f"INTERVAL '{workload.watermark_s:.3f}' SECOND"
        watermark = f", WATERMARK FOR `{workload.time_column}` AS `{workload.time_column}` - {late}"
    columns = ", ".join(f"`{column}` {kind}" for column, kind in types.items())
    return (
        f"CREATE TABLE `{name}` ({columns}{watermark}) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}', "
        f"'format' = 'parquet', 'source.monitor-interval' = '{MONITOR}');"
    )


def _sink(workload: Workload, output: Path) -> str:
    columns = ", ".join(f"`{name}` {FLINK_TYPES[kind]}" for name, kind in fields(workload.columns).items())
    return (
        f"CREATE TABLE `output` ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{output}', "
        "'format' = 'parquet');"
    )


def _quoted(names: list[str]) -> list[str]:
    return [f"`{name}`" for name in names]
