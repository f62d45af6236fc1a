"""A pytest fixture that verifies a pipeline, for a project's own tests.

    pytest_plugins = ["rekindle.testing"]     # in conftest.py

    def test_words(rekindle_verify):
        report = rekindle_verify("words.py", runs=3, rows=2000)
        assert report.is_precise

``rekindle_verify`` takes a pipeline file, relative to the folder of pytest's configuration, and what
``rekindle verify`` takes as options; it returns a ``Report``. It starts real processes: give such a test a minute, and
a mark of your own if it is to run only sometimes. pytest is needed by whoever uses this, and not by Rekindle.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import pytest
except ModuleNotFoundError as missing:
    raise ImportError("rekindle.testing is for pytest, which is not installed: pip install pytest") from missing

if TYPE_CHECKING:
    from rekindle.verify.report import Report

USUAL = ("kill-node", "kill-all", "step")

RekindleVerify = Callable[..., "Report"]

__all__ = ["RekindleVerify", "rekindle_verify"]


@pytest.fixture
def rekindle_verify(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RekindleVerify:
    """``rekindle_verify(file, ...)`` runs the pipeline undisturbed and with faults, and returns the ``Report``."""

    def verify(
        file: str | Path,
        *,
        runs: int = 1,
        per_run: int = 2,
        seed: int = 0,
        faults: Sequence[str] = USUAL,
        source_s: float = 5.0,
        rows: int | None = None,
        given: str | Path | None = None,
        postgres: bool = False,
        real_sinks: bool = False,
        determinism: bool = True,
        cores: int | None = None,
    ) -> Report:
        from rekindle.verify.experiment import Request
        from rekindle.verify.experiment import verify as experiment
        from rekindle.verify.schedule import parse_kinds
        from rekindle.verify.table import conclusion, examples

        rootpath = request.config.rootpath
        report = experiment(
            Request(
                file=rootpath / file,
                folder=tmp_path_factory.mktemp("verify"),
                kinds=parse_kinds(",".join(faults)),
                runs=runs,
                per_run=per_run,
                seed=seed,
                source_s=source_s,
                rows_max=rows,
                given=None if given is None else rootpath / given,
                postgres=postgres,
                real_sinks=real_sinks,
                determinism=determinism,
                cores=cores,
            ),
            Captured(),
        )
        for line in (*examples(report), *conclusion(report)):
            sys.stdout.write(f"{line}\n")
        return report

    return verify


class Captured:
    """Writes to stdout, which pytest shows of a test that fails."""

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")

    def progress(self, doing: str, done: float) -> None:
        """Nobody looks."""
