"""The protocol under faults, in virtual time: seeds that are always the same, and some that are new each time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.faults import EVERYWHERE, TIMED

ROOT = Path(__file__).parents[2]
FIXED, FRESH = 250, 150

pytestmark = pytest.mark.timeout(300)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the stage replaces threads, time and Spark for good."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


def test_fixed_schedules_keep_every_promise_and_every_fault_happens_in_them() -> None:
    done = simulate("--seed", "1", "--schedules", f"{FIXED}")
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.splitlines()[-1]
    assert told.startswith(f"{FIXED} schedules, 0 failed")
    happened = set(re.findall(r"(\w+) \d+", told.partition("faults: ")[2]))
    assert happened >= {*TIMED, *EVERYWHERE, "hang"}


def test_fresh_schedules_keep_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    done = simulate("--schedules", f"{FRESH}")
    with capsys.disabled():
        print(f"\n{done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_replays_exactly() -> None:
    stories = [simulate("--seed", "11", "--verbose").stdout.splitlines()[:-1] for _ in range(2)]
    assert len(stories[0]) > 50
    assert stories[0] == stories[1]


def test_bad_arguments_are_explained() -> None:
    done = simulate("--schedules", "many")
    assert done.returncode == 2
    assert "invalid int value: 'many'" in done.stderr
