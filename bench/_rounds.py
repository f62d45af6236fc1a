"""What benchmarks share that run a process from its start to its end: who runs where, and what came of a round."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench._ending import end_rekindle, end_session, uninterrupted
from bench._rows import FILE_ROWS, arrived
from rekindle.home import open_home
from rekindle.keeper import open_keeper

FLINK_LOCK = Path(__file__).resolve().parents[1] / "requirements-flink.lock"
FILES_PER_BATCH = 4
ROWS_MAX = FILE_ROWS * FILES_PER_BATCH
WARM_UP = 3
ROUND_S_MAX = 600


@dataclass(frozen=True)
class Round:
    """What one process did in one round."""

    ends: list[float]  # when each batch's output was there
    rows: list[int]
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Rows per second, from the end of the third batch to the end of the last."""
        return sum(self.rows[WARM_UP:]) / (self.ends[-1] - self.ends[WARM_UP - 1])


def run_to_end(name: str, command: list[str], run: Path, source: Path, also: Mapping[str, str] | None = None) -> None:
    """Run ``command`` in the new folder ``run`` until it ends by itself. SystemExit if it ends badly."""
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir()
    environment = {
        **os.environ,
        "BENCH_INPUT": str(source),
        "BENCH_OUTPUT": str(run / "output"),
        "BENCH_ROWS_MAX": str(ROWS_MAX),
        **(also or {}),
    }
    with open(run / "console", "wb") as console:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )
        try:
            code = process.wait(ROUND_S_MAX)
        except BaseException:
            with uninterrupted():
                end_rekindle(process, run / "home") if (run / "home").exists() else end_session(process)
            raise
    if code != 0:
        raise SystemExit(f"{name} ended with {code}:\n{(run / 'console').read_text()[-3000:]}")


def rekindle_command(pipeline: Path, run: Path, cores: int, idle_s: float) -> list[str]:
    script = [sys.executable, "-m", "rekindle", "run", str(pipeline), "--home", str(run / "home")]
    return [*script, "--until-idle", f"{idle_s}s", "--cores", str(cores), "--json"]


def rekindle_round(run: Path, source: Path) -> Round:
    """Of a pipeline with the source ``rows`` and the stream ``counts``, from what its keeper has on record."""
    keeper = open_keeper(None, home=open_home(run / "home"))
    try:
        files = {int(c.epoch): [name for name, *_ in c.spans["rows"].through["files"]] for c in keeper.claims("rows")}
        counts = {int(e.epoch): e for e in keeper.epochs("counts", after=0)}
        sizes = {int(e.epoch): e.output.rows for e in keeper.epochs("rows", after=0)}
        ends, rows, latencies = [], [], []
        for claim in keeper.claims("counts"):
            span = range(claim.spans["rows"].after + 1, claim.spans["rows"].through + 1)
            ends.append(counts[claim.epoch].published_at_s)
            rows.append(sum(sizes[e] for e in span))
            visible = (run / "output" / f"epoch={claim.epoch:012d}").stat().st_ctime
            latencies += [visible - arrived(source / name) for e in span for name in files[e]]
        return Round(ends, rows, latencies[10:])
    finally:
        keeper.close()


def machine(cores: int) -> dict[str, Any]:
    """Where it runs, and with which versions."""
    described = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in described if line.startswith("model name")), "")
    packages = ("pyspark", "pyarrow", "numpy", "pandas", "sqlalchemy", "rekindle")
    return {
        "cores": cores,
        "of": os.cpu_count(),
        "processor": model,
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _first_line("java", "-version"),
        **{name: version(name) for name in packages},
        "flink": next((line.split("==")[1] for line in FLINK_LOCK.read_text().split() if "==" in line), ""),
        "commit": _first_line("git", "-C", str(FLINK_LOCK.parent), "describe", "--always", "--dirty"),
    }


def _first_line(*command: str) -> str:
    """What a command says first; '' if it is not there."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return ""
    return next(iter((said.stdout or said.stderr).splitlines()), "") if said.returncode == 0 else ""


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
