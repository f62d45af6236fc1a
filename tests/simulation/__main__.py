"""./run simulate: schedules, one after the other, each from a seed of its own."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter

HASH_SEED = "0"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    from tests.simulation.world import Stage

    stage = Stage()
    happened: Counter[str] = Counter()
    began_s, cpu_s = time.monotonic(), time.process_time()
    first = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    count = (
        1 if options.seed is not None and options.schedules is None and options.minutes is None else options.schedules
    )
    if count is None and options.minutes is None:
        count = 1000
    print(f"simulating from seed {first}", file=sys.stderr)
    done, failed = 0, 0
    told_s = began_s
    try:
        while (count is None or done < count) and (
            options.minutes is None or time.monotonic() - began_s < options.minutes * 60
        ):
            seed = first + done
            world = stage.play(seed, print if options.verbose else None)
            done += 1
            happened.update(world.happened)
            if world.failure is not None:
                failed += 1
                print(f"seed {seed} fails: {type(world.failure).__name__}: {world.failure}")
                print(f"  {world.specimen.described}")
                print(f"  replay it: ./run simulate --seed {seed} --verbose", flush=True)
                if not options.keep_going:
                    break
            if time.monotonic() - told_s > 2.0:
                told_s = time.monotonic()
                rate = done / max(0.001, time.process_time() - cpu_s) * 60
                print(f"{done} schedules, {failed} failed, {rate:.0f} a minute of one core", file=sys.stderr)
    finally:
        stage.close()
    spent_s = max(0.001, time.process_time() - cpu_s)
    faults = ", ".join(f"{kind} {number}" for kind, number in sorted(happened.items()))
    print(
        f"{done} schedules, {failed} failed, {done / spent_s * 60:.0f} a minute of one core; faults: {faults or 'none'}"
    )
    return 1 if failed else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run simulate", description=__doc__)
    parser.add_argument("--schedules", type=int, help="how many (1000)")
    parser.add_argument("--minutes", type=float, help="how long")
    parser.add_argument("--seed", type=int, help="the first seed (a fresh one); alone: this one schedule")
    parser.add_argument("--verbose", action="store_true", help="tell the story")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first seed that fails")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # the order of sets is part of a schedule
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": HASH_SEED},
        )
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one thread runs at a time: a second core only costs
    sys.exit(main(sys.argv[1:]))
