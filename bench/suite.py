"""The benchmark suite: workloads that Rekindle and its peers run on the same machine, in turns, with the same input.

    ./run bench [--quick] [--workloads a,b] [--peers x,y] [--measures throughput,latency,recovery] [--rounds N]
                [--set NAME.PARAMETER=VALUE] [--cores N] [--json FILE]
    ./run bench --sweep interval|rate|state
    ./run bench --from FILE     no measuring: tables, charts and page of an earlier run's JSON

Each run of a peer starts it anew; bench/_runs.py says how a run goes, bench/_verdict.py how its output is judged. In
each round of a workload every peer runs once, every other round in the opposite order. What is printed are medians over
the rounds and ratios of them. A sweep (bench/_sweeps.py) runs the word count's recovery under several policies against
one thing that varies. Beside the JSON come the charts and one HTML page.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from bench import _figures as f
from bench import _options as o
from bench import _sweeps as sweeps
from bench._feed import Staged, stage
from bench._report import show
from bench._rounds import machine, say
from bench._runs import LEAD_S, Asked, Plan, Result, reference, run
from bench._workload import Scale, Workload, WorkloadError
from bench.peers import SPARK, make_peer, runs
from bench.peers.base import PeerFailed, Place

PACE_S = 0.1
FILES_MAX = 4
WARM_FILES = 3
QUICK_WARM_FILES = 2
TAIL_S = 30.0
QUICK_LEAD_S = 5.0


def main() -> int:
    try:
        options = o.parse(sys.argv[1:], __doc__)
        if options.shown is not None:
            return show(o.earlier(options.shown), options)
    except WorkloadError as error:
        print("\n".join(error.args), file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _interrupt)
    report: dict[str, Any] = {
        "bench": "suite",
        "machine": machine(options.cores),
        "settings": options.settings(),
        "runs": [],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as temporary:
        try:
            for result in Suite(options, options.keep or Path(temporary), say).results():
                report["runs"].append(result.to_json())
                options.json.write_text(json.dumps(report, indent=1) + "\n")
        except KeyboardInterrupt:
            say("interrupted: this is what was measured")
            show(report, options)
            return 130
    return show(report, options)


class Suite:
    """One call of the command: the input that it stages, and the outputs that serve as reference."""

    def __init__(self, options: o.Options, folder: Path, say: Callable[[str], None]) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._random = Random(options.seed)
        self._expected: dict[tuple[str, str, Scale], pa.Table | None] = {}
        self._staged: dict[tuple[str, str, Scale], Staged] = {}
        self._count = 0

    def results(self) -> Iterator[Result]:
        """Every run, as it is done."""
        for measure in self._options.measures:
            for workload in self._options.workloads_of(measure):
                names = [name for name in self._options.peers_of(measure) if runs(name, workload)]
                for number in range(1, self._options.rounds + 1):
                    for name in names if number % 2 else reversed(names):
                        for varied, interval_s in self._varied(workload, name):
                            yield self._run(varied, name, measure, number, interval_s)
                self._clear()

    def _varied(self, workload: Workload, name: str) -> list[tuple[Workload, float | None]]:
        sweep = self._options.sweep
        return [(workload, None)] if sweep is None else sweeps.settings(sweep, workload, name)

    def _run(self, workload: Workload, name: str, measure: str, number: int, interval_s: float | None) -> Result:
        title = f"{workload.name}, {measure}, round {number}: {name}"
        if self._options.sweep is not None:
            title += f", interval {interval_s or 'its own'}, {dict(workload.parameters)}"
        staged = self._stage(workload, measure)
        try:
            expected = self._reference(staged)
        except PeerFailed as error:
            failed = f"there is nothing to compare with: {error}"
            return Result(workload.name, name, measure, number, dict(workload.parameters), interval_s, failed=failed)
        self._say(f"{title} starts")
        asked = Asked(
            measure=measure,
            round=number,
            plan=self._plan(measure),
            expected=expected,
            random=self._random,
            say=self._say,
            interval_s=interval_s,
        )
        with self._place(staged, measure) as place:
            result = run(make_peer(name, workload, place, self._say, interval_s=interval_s), staged, asked)
        self._say(f"{title}: {_told(result)}")
        return result

    def _plan(self, measure: str) -> Plan:
        if measure == f.THROUGHPUT:
            return Plan(QUICK_WARM_FILES if self._options.quick else WARM_FILES)
        if measure == f.LATENCY:
            return Plan(1)
        if self._options.sweep is not None:
            return sweeps.PLAN
        return Plan(1, kills=self._options.kills, lead_s=QUICK_LEAD_S if self._options.quick else LEAD_S)

    def _scale(self, measure: str) -> Scale:
        if measure == f.THROUGHPUT:
            return Scale(self._options.files)
        seconds = self._options.seconds
        if measure == f.RECOVERY:
            plan = self._plan(measure)
            tail_s = sweeps.TAIL_S if self._options.sweep is not None or self._options.quick else TAIL_S
            seconds = plan.lead_s + (plan.kills - 1) * plan.spacing_s + tail_s
        return Scale(1 + round(seconds / PACE_S), PACE_S)

    def _stage(self, workload: Workload, measure: str) -> Staged:
        scale = self._scale(measure)
        key = (workload.name, str(dict(workload.parameters)), scale)
        if key not in self._staged:
            self._count += 1
            self._staged[key] = stage(workload, scale, self._folder / f"input-{self._count}")
            self._say(f"{workload.name}: {self._staged[key].rows:,} rows of input in {scale.files} steps")
        return self._staged[key]

    def _clear(self) -> None:
        """The input of a workload that is done."""
        if self._options.keep is None:
            for folder in self._folder.glob("input-*"):
                shutil.rmtree(folder, ignore_errors=True)
        self._staged.clear()
        self._expected.clear()

    def _reference(self, staged: Staged) -> pa.Table | None:
        """What should come out."""
        workload = staged.workload
        if workload.check is not None:
            return None
        key = (workload.name, str(dict(workload.parameters)), staged.scale)
        if key not in self._expected:
            if workload.expected is not None:
                self._expected[key] = workload.expected(staged.steps, workload.parameters)
            else:
                self._say(f"{workload.name}: plain Spark, undisturbed, for what should come out")
                measure = f.THROUGHPUT if staged.scale.pace_s is None else f.LATENCY
                with self._place(staged, measure) as place:
                    self._expected[key] = reference(make_peer(SPARK, workload, place, self._say), staged)
        return self._expected[key]

    def _place(self, staged: Staged, measure: str) -> _Folder:
        self._count += 1
        folder = self._folder / f"run-{self._count}"
        folder.mkdir()
        rows = max(step.rows for step in staged.steps)
        many = measure == f.THROUGHPUT
        place = Place(
            run=folder / "run",
            source=folder / "input",
            cores=self._options.cores,
            files_max=FILES_MAX if many else 1000,
            rows_max=FILES_MAX * rows if many else 1_000_000,
        )
        return _Folder(place, folder, keep=self._options.keep is not None)


class _Folder:
    """A place that is removed afterwards."""

    def __init__(self, place: Place, folder: Path, *, keep: bool) -> None:
        self._place = place
        self._root = folder
        self._keep = keep

    def __enter__(self) -> Place:
        return self._place

    def __exit__(self, *_: object) -> None:
        if not self._keep:
            shutil.rmtree(self._root, ignore_errors=True)


def _told(result: Result) -> str:
    """In one line, for whoever watches."""
    parts = [result.outcome.splitlines()[0] if not result.failed else result.outcome]
    if result.rows_per_s is not None:
        parts.append(f"{result.rows_per_s:,.0f} rows/s")
    if result.latency_s:
        parts.append(f"latency {result.latency_s['p50'] * 1000:,.0f} ms, p99 {result.latency_s['p99'] * 1000:,.0f} ms")
    for pause in result.pauses:
        caught_up_s = pause["caught_up_s"]
        parts.append(
            f"longest pause {pause['pause_s']:.2f} s"
            + ("" if caught_up_s is None else f", caught up after {caught_up_s:.1f} s")
        )
    return "; ".join(parts)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
