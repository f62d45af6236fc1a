"""How long output pauses when the driver and its JVM are killed: plain Spark against every recovery policy.

    ./run bench failover [--quick] [--policies plain,rollback,...] [--keys 10000,1000000] [--kills N] [--rounds N]
    ./run bench failover --sizes          recovery against state size, for the two standbys
    ./run bench failover --from FILE      no measuring: tables and picture of an earlier run's JSON

One peer after the other, interleaved round by round, on the same input: files that name every key once, then a file of
1,000 rows every 100 ms. Each peer counts and sums by key in update mode into Parquet files. Plain Spark has a
checkpoint and a parent that starts it again as soon as it ends.

A kill is SIGKILL of the Python process that does the work, its JVM and all else it started, at a random moment, when
all that the policy wants is there and output is steady. Its pause is the longest stretch without new output (rows that
are visible at the sink) from there until all is back and output is steady again, so a stall while redundancy is
repaired counts too. Medians over all kills are compared, as a share of plain Spark's in the same run. At the end the
last count and sum of every key must be what the input comes to.

Throughput: all input is there from the start; rows per second with Rollback() over Rollback(copies=0), as in
./run bench steady. UpstreamBackup refuses unbounded state, so it counts in windows of 10 s, and sits out the larger
states, which windows do not have at this pace.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import _pauses as p
from bench._measure import Plan, measure
from bench._peers import PIPELINE, peer
from bench._picture import draw
from bench._rounds import machine, rekindle_command, rekindle_round, run_to_end, say
from bench._rows import FILE_ROWS, Rows

QUICK = (p.PLAIN, p.ROLLBACK, p.ACTIVE)
SIZED = (p.PASSIVE, p.ACTIVE)
KEYS = (10_000, 1_000_000)
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
WINDOWED_KEYS_MAX = 100_000
STEADY = Plan(kills=3, steady_epochs=20, steady_s=10.0)
THROUGHPUT_FILES = 80
BACKUP = {"on": "rollback", "off": "source_replay"}


def main() -> int:
    options = _options()
    if options.shown is not None:
        report = json.loads(options.shown.read_text())
        return show(report, options.png, markdown=options.markdown)
    signal.signal(signal.SIGTERM, _interrupt)
    report = {
        "bench": "failover",
        "machine": machine(options.cores),
        "settings": {
            name: getattr(options, name) for name in ("policies", "keys", "kills", "rounds", "sizes", "quick", "seed")
        },
        "runs": [],
        "throughput": {},
    }
    save = partial(_save, report, options.json)
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-", ignore_cleanup_errors=True) as temporary:
        folder = options.keep or Path(temporary)
        pauses(folder, options, report["runs"], save)
        if options.throughput:
            report["throughput"] = throughput(folder, options)
            save()
    return show(report, options.png, markdown=options.markdown)


# -- measuring -------------------------------------------------------------------------------------------


def pauses(folder: Path, options: argparse.Namespace, runs: list[dict[str, Any]], save: Callable[[], None]) -> None:
    """Every peer with every number of keys, in each round, every other round in the opposite order."""
    short = Plan(options.kills, STEADY.steady_epochs // 2, STEADY.steady_s / 2)
    plan = short if options.quick else Plan(options.kills, STEADY.steady_epochs, STEADY.steady_s)
    random = Random(options.seed)
    for number in range(1, options.rounds + 1):
        for keys in options.keys:
            for name in options.policies if number % 2 else reversed(options.policies):
                if name == p.UPSTREAM and keys > WINDOWED_KEYS_MAX:
                    say(f"{name}, {keys:,} keys: left out, its windows do not hold so many at this pace")
                    continue
                place = folder / f"{name}-{keys}-{number}"
                place.mkdir()
                try:
                    run = measure(
                        peer(name, place / "run", place / "input", options.cores), keys, number, plan, random, say
                    )
                finally:
                    if options.keep is None:
                        shutil.rmtree(place, ignore_errors=True)
                runs.append(asdict(run))
                save()


def throughput(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """By number of keys: rows per second with backup on and off."""
    found: dict[str, dict[str, list[float]]] = {}
    source, run = folder / "all", folder / "run"
    for keys in options.keys:
        rates: dict[str, list[float]] = {backup: [] for backup in BACKUP}
        say(f"throughput, {keys:,} keys: writing {THROUGHPUT_FILES * FILE_ROWS:,} rows")
        source.mkdir()
        for index in range(THROUGHPUT_FILES):
            Rows(index * FILE_ROWS, FILE_ROWS, keys).write(source / f"{index:06d}.parquet")
        for number in range(1, options.rounds + 1):
            for backup in BACKUP if number % 2 else reversed(BACKUP):
                command = rekindle_command(PIPELINE, run, options.cores, 3.0)
                run_to_end(f"backup {backup}", command, run, source, {"BENCH_POLICY": BACKUP[backup]})
                rates[backup].append(rekindle_round(run, source).rate)
                say(f"throughput, {keys:,} keys, round {number}: backup {backup} {rates[backup][-1]:,.0f} rows/s")
                shutil.rmtree(run)
        shutil.rmtree(source)
        found[str(keys)] = rates
    return found


# -- showing ---------------------------------------------------------------------------------------------


def show(report: dict[str, Any], png: Path | None, *, markdown: bool) -> int:
    """Print the tables and draw the picture; 1 if a run failed or its output was wrong, else 0."""
    runs = [p.Run.from_json(said) for said in report["runs"]]
    found = p.figures(runs)
    goals = {f"throughput, {int(keys):,} keys: backup on / off": p.backup_ratio(rates["on"], rates["off"])
             for keys, rates in report["throughput"].items()}  # fmt: skip
    if report["settings"]["sizes"]:
        goals |= {f"{p.LABELS[peer]}: longest pause / shortest": goal for peer, goal in p.growth(found).items()}
    render = p.as_markdown if markdown else p.as_text
    tables = [p.table(found)] if found else []
    tables += [p.ratios(goals)] if goals else []
    print("\n\n".join(render(rows) for rows in tables))
    for run in runs:
        if not run.sound:
            print(f"{run.peer}, {run.keys:,} keys, round {run.round}: {run.failed or run.outcome}")
    if png is not None:
        draw(runs, png)
    return 0 if all(run.sound for run in runs) else 1


def _save(report: dict[str, Any], path: Path) -> None:
    """After every run, so that what was measured is not lost with what comes after it."""
    found = p.figures([p.Run.from_json(said) for said in report["runs"]])
    path.write_text(json.dumps({**report, "figures": [p.to_json(figure) for figure in found]}, indent=1) + "\n")


# -- options ---------------------------------------------------------------------------------------------


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about 3 minutes: shows that it works, not how fast")
    parser.add_argument("--sizes", action="store_true", help=f"the standbys, with {SIZES[0]:,} to {SIZES[-1]:,} keys")
    parser.add_argument("--policies", type=_names, metavar="A,B", help=f"of {','.join(p.PEERS)}")
    parser.add_argument("--keys", type=_numbers, metavar="N,M", help="how many keys the state holds")
    parser.add_argument("--kills", type=int, help=f"in each run of a peer; {STEADY.kills} unless given")
    parser.add_argument("--rounds", type=int, help="how often each peer runs; 2 unless given")
    parser.add_argument("--cores", type=int, default=2, help="of each node and of plain Spark")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--throughput", action=argparse.BooleanOptionalAction, help="backup on against backup off")
    parser.add_argument("--json", type=Path, default=Path("bench-failover.json"))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="run in this new folder, and leave all there")
    parser.add_argument("--png", type=Path, help="draw the picture here")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--from", dest="shown", type=Path, metavar="FILE", help="show an earlier run's JSON again")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep = options.keep.resolve()
        options.keep.mkdir(parents=True)
    options.policies = options.policies or (SIZED if options.sizes else QUICK if options.quick else p.PEERS)
    options.keys = options.keys or (SIZES if options.sizes else KEYS[:1] if options.quick else KEYS)
    options.kills = options.kills or (1 if options.quick else STEADY.kills)
    options.rounds = options.rounds or (1 if options.quick or options.sizes else 2)
    if options.throughput is None:
        options.throughput = not options.quick and not options.sizes
    return options


def _names(text: str) -> Sequence[str]:
    names = text.split(",")
    for name in names:
        if name not in p.PEERS:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; there are {', '.join(p.PEERS)}")
    return [name for name in p.PEERS if name in names]


def _numbers(text: str) -> Sequence[int]:
    return sorted(int(part) for part in text.split(","))


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
