"""Runs spin on the protocol's model: as it is, where it must hold, and without each guard, where it must break.

    ./run spec                   everything, and the table
    ./run spec --write           also puts the table into spec/README.md
    ./run spec --story GUARD     how it goes wrong without this guard, step by step

Spin and a C compiler do the work, in a scratch folder. A search that was cut short, by depth or memory, fails.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spec.guards import GUARDS, Guard

HERE = Path(__file__).parent
README = HERE / "README.md"
BEGIN, END = "<!-- by ./run spec --write: begin -->\n", "<!-- end -->\n"
WORKERS = 2
DEPTH = 100_000
TIMEOUT_S = 300
INSTALL = "Install: sudo apt-get install spin gcc libc6-dev"
ANSWERS = {"1": "done", "2": "it is there already, or another's", "3": "refused", "4": "fenced, refused"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One way to run a file of the model. ``ends`` says that it comes to an end whatever happens, so that what holds
    at each end is what is always reached; that is checked as well."""

    name: str
    file: str
    switches: tuple[str, ...] = ()
    ends: bool = False


SCENES = {
    scene.name: scene
    for scene in (
        Scene("line", "anybody.pml", ("LINE",)),
        Scene("trimming", "anybody.pml", ("TRIMMING",)),
        Scene("owners", "anybody.pml", ("OWNERS",)),
        Scene("replicas", "replicas.pml", ("LIVES=2", "SWEEP"), ends=True),
        Scene("logged", "replicas.pml", ("LIVES=2", "SWEEP", "LOGGED")),
        Scene("three lives", "replicas.pml", ("LIVES=3",)),
        Scene("delivery", "delivery.pml", ends=True),
        Scene("stores", "stores.pml", ends=True),
        Scene("horizon", "horizon.pml", ends=True),
    )
}


class CheckFailed(Exception):
    """Spin, the compiler or the search itself did not do what it should."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: how many states and how deep, and the assertion that broke, if one did."""

    states: int
    depth: int
    broken: str | None


@dataclass(frozen=True, slots=True)
class Task:
    scene: Scene
    guard: Guard | None = None
    cycles: bool = False

    @property
    def name(self) -> str:
        if self.guard is not None:
            return f"without {self.guard.name}"
        return f"{self.scene.name}, {'comes to an end' if self.cycles else 'intact'}"


TRAIL_ENDS = "spin: trail ends"


def missing_tools() -> list[str]:
    return [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]


def tasks() -> list[Task]:
    """The long ones first."""
    intact = [Task(scene) for scene in SCENES.values()]
    cycles = [Task(scene, cycles=True) for scene in SCENES.values() if scene.ends]
    intact.sort(key=lambda task: task.scene.name != "three lives")
    return intact + cycles + [Task(SCENES[guard.scene], guard) for guard in GUARDS]


def run_all(told: Callable[[Task, Found], None] = lambda task, found: None) -> dict[Task, Found]:
    """All tasks, two at a time. Raises CheckFailed."""
    with ThreadPoolExecutor(WORKERS) as pool:
        found = {}
        for task, result in zip(tasks(), pool.map(search, tasks()), strict=True):
            told(task, result)
            found[task] = result
    return found


def wrong(task: Task, found: Found) -> str | None:
    """What is wrong with a result, None if it is what it must be."""
    if task.guard is None and found.broken is not None:
        return f"{task.name}: broke: {found.broken}"
    if task.guard is not None and found.broken is None:
        return f"{task.name}: nothing broke in {found.states} states: the model does not need this guard"
    return None


def search(task: Task) -> Found:
    with built(task) as folder:
        return _search(folder, task)


@contextmanager
def built(task: Task) -> Iterator[Path]:
    """A folder with the program that searches the states of a task."""
    with tempfile.TemporaryDirectory(prefix="rekindle-spec-") as scratch:
        folder = Path(scratch)
        for file in HERE.glob("*.pml"):
            shutil.copy(file, folder)
        command(folder, "spin", *_switches(task), "-a", task.scene.file)
        # What breaks is found early: there the compiler is to be quick, not the search.
        level, kind = ("-O0" if task.guard is not None else "-O2"), ("-DNP" if task.cycles else "-DSAFETY")
        command(folder, "gcc", level, "-w", kind, "-DNOFAIR", "-DMEMLIM=4000", "-o", "pan", "pan.c")
        yield folder


def _switches(task: Task) -> list[str]:
    without = [f"WITHOUT={task.guard.name}"] if task.guard is not None else []
    return [f"-D{switch}" for switch in (*task.scene.switches, *without)]


def _search(folder: Path, task: Task) -> Found:
    size = "-w20" if task.guard is not None else "-w24"
    said = command(folder, "./pan", "-E", *(["-l"] if task.cycles else []), f"-m{DEPTH}", size)
    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    depth = re.search(r"depth reached (\d+)", said)
    broken = re.search(r"^pan:1: (.*) \(at depth \d+\)", said, flags=re.MULTILINE)
    if errors is None or states is None or depth is None or (errors[1] != "0") != (broken is not None):
        raise CheckFailed(f"{task.name}: the search said something unexpected:\n{said}")
    cut = re.search(r"error: max search depth too small|Search not completed|MEMLIM|out of memory", said)
    if broken is None and cut is not None:
        raise CheckFailed(f"{task.name}: the search was cut short ({cut[0]}), so nothing is shown")
    if broken is not None and not broken[1].startswith(("assertion violated", "non-progress cycle")):
        raise CheckFailed(f"{task.name}: it broke at something that is no assertion: {broken[1]}")
    return Found(int(states[1]), int(depth[1]), broken[1] if broken is not None else None)


def command(folder: Path, *words: str) -> str:
    """Run, and return what it said. Raises CheckFailed."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    except FileNotFoundError as error:
        raise CheckFailed(f"{words[0]} is not here. {INSTALL}") from error
    except subprocess.TimeoutExpired as error:
        raise CheckFailed(f"{' '.join(words)} took longer than {TIMEOUT_S} s") from error
    if done.returncode != 0 and words[0] != "./pan":
        raise CheckFailed(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def story(guard: Guard) -> list[str]:
    """What happens, step by step, until something breaks: the shortest way there."""
    task = Task(SCENES[guard.scene], guard)
    with built(task) as folder:
        command(folder, "gcc", "-O2", "-w", "-DSAFETY", "-DBFS", "-DMEMLIM=8000", "-o", "pan", "pan.c")
        found = _search(folder, task)
        said = command(folder, "spin", *_switches(task), "-t", "-T", task.scene.file)
    steps = itertools.takewhile(lambda line: not line.startswith(TRAIL_ENDS), map(str.strip, said.splitlines()))
    told = [step for step in steps if step and not step.startswith("spin:")]
    return [re.sub(r"#(\d)$", lambda m: ANSWERS.get(m[1], "?"), step) for step in told] + [f"=> {found.broken}"]


# -- what people see -----------------------------------------------------------------------------------


def table() -> str:
    rows = [
        "| guard | where the code has it | the line | what goes wrong without it | scene |",
        "| --- | --- | --- | --- | --- |",
    ]
    for guard in GUARDS:
        line = guard.line.replace("|", "\\|")
        rows.append(f"| `{guard.name}` | `{guard.file}` `{guard.function}` | `{line}` | {guard.harm} | {guard.scene} |")
    return "\n".join(rows) + "\n"


def with_table(readme: str) -> str:
    before, rest = readme.split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="./run spec", description="Check the model of the protocol with spin.")
    parser.add_argument("--story", metavar="GUARD", help="how it goes wrong without this guard")
    parser.add_argument("--write", action="store_true", help="put the table of guards into spec/README.md")
    options = parser.parse_args(arguments)
    if missing := missing_tools():
        print(f"[spec] not here: {', '.join(missing)}. {INSTALL}", file=sys.stderr)
        return 3
    try:
        if options.story is not None:
            return _tell(options.story)
        return _check(write=options.write)
    except CheckFailed as error:
        print(f"[spec] {error}", file=sys.stderr)
        return 1


def _tell(name: str) -> int:
    by_name = {guard.name: guard for guard in GUARDS}
    if name not in by_name:
        print(f"[spec] there is no guard {name!r}. There are: {', '.join(by_name)}", file=sys.stderr)
        return 2
    print(f"Without {name} ({by_name[name].harm}):")
    for number, step in enumerate(story(by_name[name]), 1):
        print(f"{number:4d}  {step}")
    return 0


def _check(*, write: bool) -> int:
    began = time.monotonic()
    total, number, failed = len(tasks()), itertools.count(1), list[str]()

    def told(task: Task, found: Found) -> None:
        why = wrong(task, found)
        failed.extend([why] if why is not None else [])
        how = f"{found.states} states, {found.depth} deep" if found.broken is None else f"breaks: {found.broken}"
        mark = "ok    " if why is None else "FAILED"
        print(f"[{next(number):2d}/{total}] {mark} {task.name}: {how}", flush=True)

    run_all(told)
    print(f"{len(SCENES)} scenes hold, {len(GUARDS)} guards taken away one by one, {time.monotonic() - began:.0f} s")
    for why in failed:
        print(f"[spec] {why}", file=sys.stderr)
    if failed:
        return 1
    if write:
        README.write_text(with_table(README.read_text()))
        print(f"the table is in {os.path.relpath(README)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
