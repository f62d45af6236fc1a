"""What can be asked of ``./run bench``, and what is meant where nothing is said."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import _figures as f
from bench._sweeps import PEERS as SWEEP_PEERS
from bench._sweeps import SWEEPS, WORKLOAD
from bench._workload import Workload, WorkloadError, all_workloads, picked
from bench.peers import FLINK, FLINK_TUNED, MEMORY, REKINDLE, SPARK, SPARK_TUNED, picked_peers

PEERS_OF: Mapping[str, Sequence[str]] = {
    f.THROUGHPUT: (SPARK, SPARK_TUNED, FLINK, FLINK_TUNED, REKINDLE, MEMORY),
    f.LATENCY: (SPARK, SPARK_TUNED, FLINK, FLINK_TUNED, REKINDLE),
    f.RECOVERY: (SPARK, FLINK, FLINK_TUNED, REKINDLE, f.PASSIVE, f.ACTIVE),
}
QUICK_PEERS_OF: Mapping[str, Sequence[str]] = {
    f.THROUGHPUT: (SPARK_TUNED, REKINDLE),
    f.LATENCY: (SPARK, REKINDLE),
    f.RECOVERY: (SPARK, f.PASSIVE),
}
QUICK_WORKLOADS = ("wordcount",)
NOT_A_REPORT = "--from takes the JSON that an earlier run wrote"
KILLED = ("wordcount", f.STABLE)
"""The workloads whose recovery is measured, unless workloads are given."""


@dataclass(frozen=True, slots=True)
class Options:
    workloads: Sequence[Workload]
    every_one: bool
    peers: Sequence[str] | None
    measures: Sequence[str]
    rounds: int
    quick: bool
    cores: int
    files: int
    seconds: float
    kills: int
    seed: int
    json: Path
    html: Path
    png: Path
    sweep: str | None
    markdown: bool
    shown: Path | None
    keep: Path | None

    def peers_of(self, measure: str) -> Sequence[str]:
        """Who runs in a measure."""
        if self.sweep is not None:
            return self.peers or SWEEP_PEERS
        return self.peers or (QUICK_PEERS_OF if self.quick else PEERS_OF)[measure]

    def workloads_of(self, measure: str) -> Sequence[Workload]:
        """What runs in a measure."""
        if self.every_one and measure == f.RECOVERY:
            return [workload for workload in self.workloads if workload.name in KILLED]
        return self.workloads

    def settings(self) -> dict[str, Any]:
        """What the report says of them."""
        names = ("measures", "rounds", "quick", "cores", "files", "seconds", "kills", "seed", "sweep")
        said = {name: getattr(self, name) for name in names}
        return {**said, "parameters": {w.name: dict(w.parameters) for w in self.workloads}}


def parse(arguments: Sequence[str], about: str | None = None) -> Options:
    """Raises WorkloadError for a name that is not there; argparse's own SystemExit for the rest."""
    parser = argparse.ArgumentParser(
        prog="./run bench", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="some minutes: shows that it works, not how fast")
    parser.add_argument("--workloads", type=_names, metavar="A,B", help="all of them unless given")
    parser.add_argument("--peers", type=_names, metavar="A,B", help="by measure unless given")
    parser.add_argument("--measures", type=_names, metavar="A,B", default=list(f.MEASURES), help=", ".join(f.MEASURES))
    parser.add_argument("--set", action="append", default=[], metavar="NAME.PARAMETER=VALUE", help="of a workload")
    parser.add_argument("--sweep", choices=list(SWEEPS), help="the word count's recovery against one thing instead")
    parser.add_argument("--rounds", type=_at_least(1), default=None, help="how often each peer runs; 3 unless given")
    parser.add_argument("--cores", type=_at_least(1), default=2, help="for each peer, all of its processes together")
    parser.add_argument("--files", type=_at_least(4), help="throughput: how many big files; 40 unless given")
    parser.add_argument("--seconds", type=_at_least(4), help="latency: how long input comes; 30 unless given")
    parser.add_argument("--kills", type=_at_least(1), default=1, help="recovery: how many in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--json", type=Path, default=Path("bench-suite.json"))
    parser.add_argument("--html", type=Path, help="the page with all of it; beside the JSON unless given")
    parser.add_argument("--png", type=Path, metavar="DIR", help="where the charts go; beside the JSON unless given")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--from", dest="shown", type=Path, metavar="FILE", help="show an earlier run's JSON again")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="run in this new folder, and leave all there")
    given = parser.parse_args(arguments)
    quick = given.quick
    if given.keep is not None:
        given.keep = given.keep.resolve()
        if given.keep.exists():
            parser.error(f"--keep takes a new folder: {given.keep} is there already")
        given.keep.mkdir(parents=True)
    for measure in given.measures:
        if measure not in f.MEASURES:
            parser.error(f"there is no measure {measure!r}; there are {', '.join(f.MEASURES)}")
    base = given.shown or given.json
    names = given.workloads or (QUICK_WORKLOADS if quick else sorted(all_workloads()))
    if given.sweep is not None:
        if given.workloads or given.measures != list(f.MEASURES):
            parser.error("a sweep is of the word count and of recovery: leave out --workloads and --measures")
        names, given.measures = [WORKLOAD], [f.RECOVERY]
    return Options(
        workloads=_with(picked(names), given.set),
        every_one=not given.workloads,
        peers=picked_peers(given.peers) if given.peers else None,
        measures=[measure for measure in f.MEASURES if measure in given.measures],
        rounds=given.rounds or (1 if quick or given.sweep else 3),
        quick=quick,
        cores=given.cores,
        files=given.files or (12 if quick else 40),
        seconds=given.seconds or (10 if quick else 30),
        kills=given.kills,
        seed=given.seed,
        json=given.json,
        html=given.html or base.with_suffix(".html"),
        png=given.png or base.with_suffix(""),
        sweep=given.sweep,
        markdown=given.markdown,
        shown=given.shown,
        keep=given.keep,
    )


def earlier(path: Path) -> dict[str, Any]:
    """The report of an earlier run. Raises WorkloadError if there is none in the file."""
    try:
        report = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WorkloadError(
            f"{path} cannot be read: {error}", "--from takes the JSON that an earlier run wrote"
        ) from None
    if not isinstance(report, dict) or report.get("bench") != "suite":
        raise WorkloadError(f"{path} is not of the suite", "--from takes the JSON that an earlier run wrote")
    return report


def _with(workloads: Sequence[Workload], settings: Sequence[str]) -> list[Workload]:
    """The workloads with what was set of them."""
    found = {workload.name: workload for workload in workloads}
    for setting in settings:
        left, equals, value = setting.partition("=")
        name, dot, parameter = left.partition(".")
        if not (equals and dot and name and parameter):
            raise WorkloadError(f"--set takes NAME.PARAMETER=VALUE, not {setting!r}")
        if name not in found:
            picked([name])  # it may not be there at all
            raise WorkloadError(f"--set {setting}: {name} is not among the workloads of this call")
        found[name] = found[name].with_parameters(**{parameter: value})
    return list(found.values())


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return number
