"""Lets Python import a module with a mutant's defect in it. Works in a process that has not imported it yet."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tests.mutants.catalogue import Mutant


class DoesNotApply(Exception):
    """The text that a mutant changes is not there, or not only once."""


def mutated(mutant: Mutant) -> str:
    """The source of the mutant's module, changed."""
    source = source_of(mutant.module).read_text()
    for before, after in mutant.changes:
        if source.count(before) != 1:
            raise DoesNotApply(f"{mutant.name!r}: found {source.count(before)} times in {mutant.module}: {before!r}")
        source = source.replace(before, after)
    compile(source, mutant.module, "exec")
    return source


def source_of(module: str) -> Path:
    # Found without importing the package: that would import what is to be changed.
    root = Path(__file__).parents[2] / "src"
    return root.joinpath(*module.split(".")).with_suffix(".py")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._source = mutated(mutant)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(source_of(fullname)))

    def get_source(self, fullname: str) -> str:
        return self._source


def infect(mutant: Mutant) -> None:
    """From now on the module has the defect."""
    if mutant.module in sys.modules:
        raise DoesNotApply(f"{mutant.module} is imported already")
    sys.meta_path.insert(0, Finder(mutant))
