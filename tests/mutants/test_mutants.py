"""Every deliberate defect applies to the code as it is, and those that are quick to judge are caught."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.apply import DoesNotApply, mutated, source_of
from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant) -> None:
    assert mutated(mutant) != source_of(mutant.module).read_text()
    assert mutant.checks


def test_a_mutant_whose_text_is_gone_is_refused() -> None:
    with pytest.raises(DoesNotApply, match="found 0 times"):
        mutated(Mutant("gone", "rekindle.keeper.line", (("what was never there", ""),)))


def test_names_tell_them_apart() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.timeout(400)
def test_the_quick_ones_are_caught() -> None:
    command = [sys.executable, "-m", "tests.mutants", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("simulation, seed") >= 15
