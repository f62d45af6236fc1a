"""./run mutants: deliberate defects, and which check catches each. One that nobody catches is a failure.

Every mutant lives in a process of its own, forked from one that has imported nothing of Rekindle yet. The first turn
has no defect: what fails there would catch everything.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from tests.mutants.apply import infect
from tests.mutants.catalogue import MUTANTS, SIMULATION, Mutant

HASH_SEED = "0"
SCHEDULES_MAX = 400
HEALTHY_SCHEDULES = 50
LIMIT_S = 600
PRELOADED = (
    "fsspec",
    "pandas",
    "psutil",
    "psycopg",
    "pyarrow.parquet",
    "pyspark.sql",
    "pytest",
    "sqlalchemy",
    "xxhash",
)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    chosen = [m for m in MUTANTS if all(w in m.name for w in options.name) and not (options.quick and m.slow)]
    if not chosen:
        print(f"no mutant has {' '.join(options.name)!r} in its name", file=sys.stderr)
        return 2
    _preload()
    print(f"{'mutant':<55} caught by", flush=True)
    survivors = 0
    if not options.name:
        found = _in_child(partial(_simulate, 0, HEALTHY_SCHEDULES))  # the tests have turns of their own
        survivors += found != ""
        print(f"{'(none: the code as it is)':<55} {found or 'nothing, as it should be'}", flush=True)
    for number, mutant in enumerate(chosen, 1):
        print(f"{number} of {len(chosen)}: {mutant.name}", file=sys.stderr, end="\r", flush=True)
        before_s = _children_s()
        try:
            found = _judge(mutant)
        except Broken as broken:
            found, survivors = f"NOT JUDGED: {broken}", survivors + 1
        survivors += not found
        took = f"  ({_children_s() - before_s:.1f} s)" if options.times else ""
        print(f"{mutant.name:<55} {found or 'NOBODY: it survives'}{took}", flush=True)
    print(
        f"{len(chosen)} mutants, {survivors} not as they should be"
        if survivors
        else f"all {len(chosen)} mutants are caught"
    )
    return 1 if survivors else 0


def _judge(mutant: Mutant) -> str:
    """Who catches it; nothing if nobody does. Each check has a process of its own: the simulation replaces a lot."""
    for check in mutant.checks:
        found = _in_child(partial(_infected, mutant, check))
        if found:
            return found
    return ""


def _infected(mutant: Mutant, check: str) -> str:
    infect(mutant)
    return _simulate(mutant.seed, SCHEDULES_MAX) if check == SIMULATION else _test([check])


def _simulate(seed: int, schedules: int) -> str:
    """Which seed fails, and of what; nothing if none does."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from tests.simulation.world import Stage

    stage = Stage()
    try:
        for number in range(seed, seed + schedules):
            world = stage.play(number)
            if world.failure is not None:
                what = " ".join(str(world.failure).split())
                return f"simulation, seed {number}: {type(world.failure).__name__}: {what[:90]}"
    finally:
        stage.close()
    return ""


def _test(names: Sequence[str]) -> str:
    """Which test fails."""
    import pytest

    failed: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failed.append(f"{report.nodeid} cannot be collected")

    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-k", "not postgres"]
    from hypothesis import Phase, settings

    # To see that something fails, not to make it small; and the same in every run.
    settings.register_profile("mutants", phases=(Phase.explicit, Phase.generate), derandomize=True, database=None)
    settings.load_profile("mutants")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main([*quiet, "-W", "ignore::pytest.PytestAssertRewriteWarning", *names], plugins=[Listener()])
    if failed:
        return failed[0]
    if code != 0:
        raise RuntimeError(f"pytest {' '.join(names)} ended with {code}: {said.getvalue()[-2000:]}")
    return ""


def _in_child(act: Callable[[], str]) -> str:
    """What ``act`` says in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            signal.alarm(LIMIT_S)
            os.write(writing, act().encode())
            code = 0
        except BaseException as error:
            os.write(writing, f"ERROR {type(error).__name__}: {error}".encode())
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise Broken(said or f"no word, status {status}")
    return said


class Broken(Exception):
    """A check could not be made."""


def _children_s() -> float:
    """The processor time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _preload() -> None:
    """What every child needs, but nothing of ours."""
    for name in PRELOADED:
        __import__(name)
    ours = sorted(name for name in sys.modules if name.split(".")[0] == "rekindle")
    if ours:
        raise RuntimeError(f"already imported, so no mutant of it can be: {ours}")


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutants", description=__doc__)
    parser.add_argument("name", nargs="*", help="only those with these words in their names")
    parser.add_argument("--quick", action="store_true", help="leave out those that take longer")
    parser.add_argument("--times", action="store_true", help="tell how much processor time each took")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:  # the order of sets is part of a schedule
        environment = {**os.environ, "PYTHONHASHSEED": HASH_SEED}
        os.execve(sys.executable, [sys.executable, "-m", "tests.mutants", *sys.argv[1:]], environment)
    sys.exit(main(sys.argv[1:]))
