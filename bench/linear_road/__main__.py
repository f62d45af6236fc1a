"""Linear Road: how many expressways two cores serve, with every answer right and within 5 s.

    ./run bench linear_road --expressways 4 [--kill] [--policy active_standby]
    ./run bench linear_road --rating [--kill] [--policy ...]
    ./run bench linear_road --quick

The pipeline has two fragments, on one node: the toll calculator, with the forwarder and the accident detector; and the
toll assessment, with accident notification, balance account, daily expenditure and collector. Input is a Parquet file
for each second of traffic, output a folder of Parquet files an epoch.

A run does not take the three hours of the original. It begins at a minute of these when the load is nearly full
(``--minute``), with cars on the road and accidents that happened before. The first ``--warm`` seconds arrive at once
and build the state (LAV looks five minutes back); then ``--lead`` and ``--paced`` seconds arrive in real time, a file a
second. Latency counts for the latter; in the three hours the code would long be warm by then. An answer's latency is
from the moment when its second was due to the moment when its epoch is visible at the sink; how late the feeder was is
part of it. With ``--kill`` the node that does the work gets SIGKILL, with its JVM and all it started.

The answers of the whole run, the warm-up included, are compared with the oracle's as multisets: lost, repeated, wrong
and unexpected ones are counted. The rating is the largest number of expressways for which all are right, and those to
the paced part in time; it is searched by doubling and halving, a run each.

What it does not say: how the state grows over three hours (accounts of more cars; everything else forgets within
minutes), how text input does (the benchmark's rows are CSV; here they are Parquet), and how several hosts do. Type 4
queries are left out, as by all. The history is loaded before the run, into a file that daily expenditure reads.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench._place import POLICIES, Place
from bench._rounds import machine, say
from bench.linear_road.drive import Run, RunFailed
from bench.linear_road.generate import Traffic
from bench.linear_road.judge import NAMES, found_in, judged
from bench.linear_road.staging import stage
from bench.linear_road.world import PARAMETERS

QUICK = {"warm": 20, "lead": 5, "paced": 15, "minute": 60.0, "expressways": 1}
EXPRESSWAYS_MAX = 64
EPOCH_S_MAX = 5  # of input in an epoch, at full load: what is behind is not caught up with in one large epoch
ROWS_PER_S = 1_750


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)
    report: dict[str, Any] = {
        "bench": "linear_road",
        "machine": machine(options.cores),
        "settings": {
            n: getattr(options, n) for n in ("policy", "kill", "warm", "lead", "paced", "minute", "seed", "quick")
        },
        "runs": [],
    }
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as temporary:
        folder = options.keep or Path(temporary)

        def passes(expressways: int) -> bool:
            found = _run(folder / f"L{expressways}", expressways, options)
            report["runs"].append(found)
            options.json.write_text(json.dumps(report, indent=1) + "\n")
            return bool(found.get("right") and found.get("in_time"))

        try:
            if options.rating:
                report["rating"] = rating(passes, options.expressways)
                options.json.write_text(json.dumps(report, indent=1) + "\n")
            else:
                passes(options.expressways)
        except KeyboardInterrupt:
            say(f"interrupted after {len(report['runs'])} runs")
            return 130
    for found in report["runs"]:
        print(_told(found))
    if options.rating:
        print(f"rating: L = {report['rating']}, {report['rating'] / options.cores:g} expressways a core")
        return 0
    last = report["runs"][-1]
    # What a quick run shows is that it works, not how fast: it asks for right answers only.
    return 0 if last.get("right") and (options.quick or last.get("in_time")) else 1


def rating(passes: Any, first: int) -> int:
    """The largest number for which ``passes``, which is asked as seldom as possible; 0 if there is none."""
    good, bad = 0, EXPRESSWAYS_MAX + 1
    number = first
    while bad - good > 1:
        if passes(number):
            good = number
        else:
            bad = number
        number = min(good * 2, bad - 1) if good and bad > EXPRESSWAYS_MAX else (good + bad) // 2
    return good


def _run(folder: Path, expressways: int, options: argparse.Namespace) -> dict[str, Any]:
    traffic = Traffic(expressways, options.warm + options.lead + options.paced, options.minute, options.seed)
    say(f"L = {expressways}: generating {traffic.seconds} s of traffic")
    found: dict[str, Any] = {"expressways": expressways, "killed": options.kill, "policy": options.policy}
    try:
        staged = stage(folder, traffic, options.warm, say)
        parameters = {**PARAMETERS, "expressways": expressways, "history": str(staged.store)}
        rows_max = max(20_000, EPOCH_S_MAX * ROWS_PER_S * expressways)
        place = Place(folder / "input", folder / "output", options.policy, None, rows_max, parameters)
        paced = Run(folder, place, options.cores, say).drive(staged, with_kill=options.kill)
        verdict = judged(
            found_in(place.output), staged.answers, options.warm + options.lead, paced.began_s + options.lead
        )
        rate = staged.paced_rows / len(staged.paced)
        gave_up = paced.fed < len(staged.paced)
        found |= {"rows": staged.rows, "rate": rate, **asdict(paced), **verdict.as_json(), "gave_up": gave_up}
        say(_told(found))
    except RunFailed as error:
        found["failed"] = str(error)
        say(f"L = {expressways}: FAILED: {error}")
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _told(found: dict[str, Any]) -> str:
    """One run, for people."""
    head = f"L = {found['expressways']}, {found['policy']}{', killed' if found['killed'] else ''}"
    if "failed" in found:
        return f"{head}: FAILED: {found['failed'].splitlines()[0]}"
    verdict = "right" if found["right"] else "WRONG"
    verdict += ", in time" if found["in_time"] else ", LATE"
    lines = [f"{head}: {verdict}; {found['rate']:,.0f} rows/s, {found['cores']:.2f} cores busy, "
             f"epochs {found['epochs']}, feeder at most {found['feeder_late_s']:.2f} s late"]  # fmt: skip
    for name in NAMES.values():
        differences, took = found[name]["differences"], found[name]["latency"]
        wrong = ", ".join(f"{differences[n]:,} {n}" for n in ("lost", "repeated", "wrong", "unexpected"))
        times = "none in the paced part"
        if took:
            times = f"p50 {took['p50_s']:.2f} s, p99 {took['p99_s']:.2f} s, max {took['max_s']:.2f} s"
            times += f", {took['late']:,} late"
        lines.append(f"  {name:<12} {differences['expected']:>10,} expected: {wrong}; {times}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="linear_road", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--expressways", type=int, help="L; with --rating, where the search begins")
    parser.add_argument("--rating", action="store_true", help="search the largest L")
    parser.add_argument("--kill", action="store_true", help="SIGKILL the working node in the paced part")
    parser.add_argument(
        "--policy", choices=sorted(POLICIES), help="rollback, or passive_standby with --kill, unless given"
    )
    parser.add_argument("--warm", type=int, metavar="S", help="seconds that arrive at once; 330 unless given")
    parser.add_argument("--lead", type=int, metavar="S", help="paced seconds before latency counts; 20 unless given")
    parser.add_argument("--paced", type=int, metavar="S", help="seconds that arrive in real time; 90 unless given")
    parser.add_argument("--minute", type=float, help="of the three hours, at which the run begins; 174 unless given")
    parser.add_argument("--cores", type=int, default=2, help="of each node")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="under 2 minutes: shows that it works, not how fast")
    parser.add_argument("--json", type=Path, default=Path("bench-linear-road.json"))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="run in this new folder, and leave all there")
    options = parser.parse_args()
    usual = {"warm": 330, "lead": 20, "paced": 90, "minute": 174.0, "expressways": 1} | (QUICK if options.quick else {})
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    for name in ("expressways", "warm", "paced", "cores"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    options.policy = options.policy or ("passive_standby" if options.kill else "rollback")
    if options.keep is not None:
        options.keep = options.keep.resolve()
        options.keep.mkdir(parents=True)
    return options


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
