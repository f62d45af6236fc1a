"""Steady state against plain Structured Streaming: throughput, epoch length, latency from source to sink.

    ./run bench steady [--quick] [--rounds N] [--json FILE]

The same keyed aggregate over the same Parquet files, one process after the other, interleaved round by round on the
same cores, so that a slow minute of the machine hits both. What is printed are ratios; times are kept in the JSON.

Throughput: all files are there from the start; rows per second between the end of the third batch and the last. Each
peer keeps its state in memory, which is plain Spark's default, and in RocksDB, which is Rekindle's; both are compared
with plain Spark's default.
Pace: a feeder adds a file of 1,000 rows every 100 ms. An epoch's (a batch's) length is the time from one output to
the next; the latency of a file is from its rename into the input folder to the rename or the end of the write that
makes the output with its rows visible.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow.parquet as pq

from bench._rounds import (
    FILES_PER_BATCH,
    WARM_UP,
    Round,
    machine,
    rekindle_command,
    rekindle_round,
    run_to_end,
    say,
)
from bench._rows import FILE_ROWS, PACE_ROWS, PACE_S, Rows, arrived

HERE = Path(__file__).resolve().parent
STATES = ("memory", "rocksdb")
GOALS = {"throughput 10k keys": 0.9, "throughput 1M keys": 0.9, "epoch": 1.0, "latency": 2.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how fast")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", choices=["throughput", "pace"])
    parser.add_argument("--json", type=Path, default=Path("bench-steady.json"))
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    report: dict[str, Any] = {"machine": machine(options.cores), "rounds": rounds, "results": {}}
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        if options.only != "pace":
            for label, keys in (("10k keys", 10_000), ("1M keys", 1_000_000)):
                files = 24 if options.quick else 60
                report["results"][f"throughput {label}"] = throughput(Path(folder), keys, files, rounds, options.cores)
        if options.only != "throughput":
            seconds = 8.0 if options.quick else 30.0
            report["results"] |= pace(Path(folder), seconds, rounds, options.cores)
    options.json.write_text(json.dumps(report, indent=1))
    show(report)


def throughput(folder: Path, keys: int, files: int, rounds: int, cores: int) -> dict[str, Any]:
    source = folder / f"input-{keys}"
    say(f"writing {files * FILE_ROWS:,} rows, {keys:,} keys")
    source.mkdir()
    for index in range(files):
        Rows(index * FILE_ROWS, FILE_ROWS, keys).write(source / f"{index:06d}.parquet")
    peers = [(peer, state) for state in STATES for peer in ("plain", "rekindle")]
    rates: dict[tuple[str, str], list[float]] = {peer: [] for peer in peers}
    for number in range(rounds):
        for peer, state in peers if number % 2 == 0 else reversed(peers):
            found = run_peer(peer, folder / "run", source, cores, idle_s=15.0, state=state)
            rates[peer, state].append(found.rate)
            say(f"throughput, {keys:,} keys, round {number + 1}: {peer}, state in {state}: {found.rate:,.0f} rows/s")
    shutil.rmtree(source)
    middle = {peer: statistics.median(found) for peer, found in rates.items()}
    return {
        "rows_per_s": {f"{peer} {state}": found for (peer, state), found in rates.items()},
        "ratio": middle["rekindle", "memory"] / middle["plain", "memory"],
        "ratio_rocksdb": middle["rekindle", "rocksdb"] / middle["plain", "memory"],
        "ratio_rocksdb_both": middle["rekindle", "rocksdb"] / middle["plain", "rocksdb"],
    }


def pace(folder: Path, seconds: float, rounds: int, cores: int) -> dict[str, Any]:
    lengths: dict[str, list[float]] = {"plain": [], "rekindle": []}
    latencies: dict[str, list[float]] = {"plain": [], "rekindle": []}
    for number in range(rounds):
        for peer in ("plain", "rekindle") if number % 2 == 0 else ("rekindle", "plain"):
            source = folder / "paced"
            source.mkdir()
            stop = threading.Event()
            feeder = threading.Thread(target=feed, args=(source, stop, folder / "run" / "output", seconds))
            feeder.start()
            found = run_peer(peer, folder / "run", source, cores, idle_s=4.0)
            stop.set()
            feeder.join()
            shutil.rmtree(source)
            gaps = [b - a for a, b in zip(found.ends[WARM_UP:-3], found.ends[WARM_UP + 1 : -2], strict=True)]
            lengths[peer] += gaps
            latencies[peer] += found.latencies
            say(
                f"10,000 rows/s, round {number + 1}: {peer} epoch {statistics.median(gaps) * 1000:.0f} ms, "
                f"latency {statistics.median(found.latencies) * 1000:.0f} ms"
            )
    return {
        name: {
            f"{peer}_{part}_ms": round(float(np.percentile(values[peer], q)) * 1000, 1)
            for peer in values
            for part, q in (("median", 50), ("p99", 99))
        }
        | {"ratio": statistics.median(values["rekindle"]) / statistics.median(values["plain"])}
        for name, values in (("epoch", lengths), ("latency", latencies))
    }


def feed(source: Path, stop: threading.Event, output: Path, seconds: float) -> None:
    """Files at a steady pace: one at once, so that the query gets going, the rest when its first output is there."""
    Rows(0, PACE_ROWS, 10_000).write(source / "000000.parquet")
    while not stop.is_set() and not (output.exists() and any(output.iterdir())):
        time.sleep(0.05)
    begin, index = time.monotonic(), 1
    while not stop.is_set() and index * PACE_S < seconds:
        time.sleep(max(0.0, begin + index * PACE_S - time.monotonic()))
        Rows(index * PACE_ROWS, PACE_ROWS, 10_000).write(source / f"{index:06d}.parquet")
        index += 1


def run_peer(peer: str, run: Path, source: Path, cores: int, *, idle_s: float, state: str = "memory") -> Round:
    if peer == "plain":
        run_to_end(peer, [*plain_command(run, source, cores, idle_s), "--state", state], run, source)
        return plain_round(run, source)
    command = rekindle_command(HERE / "keyed.py", run, cores, idle_s)
    run_to_end(peer, command, run, source, {"BENCH_STATE": state})
    return rekindle_round(run, source)


def plain_command(run: Path, source: Path, cores: int, idle_s: float) -> list[str]:
    script = [sys.executable, str(HERE / "plain_spark.py"), str(source), str(run / "output"), str(run / "checkpoint")]
    return [*script, str(run / "log"), "--cores", str(cores), "--files-per-batch", str(files_per_batch(source)),
            "--idle-s", str(idle_s)]  # fmt: skip


def files_per_batch(source: Path) -> int:
    return FILES_PER_BATCH if source.name.startswith("input") else 1000


def plain_round(run: Path, source: Path) -> Round:
    batches = [json.loads(line) for line in (run / "log").read_text().splitlines()]
    rows, latencies = [], []
    for batch in batches:
        names = plain_files(run / "checkpoint" / "sources" / "0", batch["batch"])
        rows.append(sum(pq.read_metadata(source / name).num_rows for name in names))
        latencies += [batch["ended_s"] - arrived(source / name) for name in names]
    return Round([b["ended_s"] for b in batches], rows, latencies[10:])


def plain_files(log: Path, batch: int) -> list[str]:
    """The input files of a batch, from the log of Spark's file source."""
    path = log / str(batch) if (log / str(batch)).exists() else log / f"{batch}.compact"
    entries = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    return [Path(e["path"]).name for e in entries if e["batchId"] == batch]


def show(report: Mapping[str, Any]) -> None:
    print(f"{'Rekindle / plain Spark':28} {'ratio':>7}   goal")
    for name, result in report["results"].items():
        best = "at least" if name.startswith("throughput") else "at most"
        goal = GOALS[name]
        met = result["ratio"] >= goal if best == "at least" else result["ratio"] <= goal
        print(f"{name:28} {result['ratio']:7.2f}   {best} {goal}  {'met' if met else 'MISSED'}")
        for key, label in (("ratio_rocksdb", "Rekindle on RocksDB"), ("ratio_rocksdb_both", "both on RocksDB")):
            if key in result:
                print(f"  {label:26} {result[key]:7.2f}")


if __name__ == "__main__":
    main()
