"""The fixture that users verify with, used as they use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rekindle.testing import RekindleVerify, rekindle_verify

__all__ = ["rekindle_verify"]

WORDS = Path(__file__).parent / "pipelines" / "words.py"
FILES = 24


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_words_are_counted_precisely_though_everything_dies(rekindle_verify: RekindleVerify, tmp_path: Path) -> None:
    folder = tmp_path / "lines"
    folder.mkdir()
    for file in range(FILES):
        lines = [{"id": 10 * file + n, "line": f"word{n} word{n % 3} file{file}"} for n in range(10)]
        (folder / f"{file:02d}.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = rekindle_verify(WORDS, runs=1, per_run=1, faults=["kill-all"], given=tmp_path, cores=1, determinism=False)
    assert report.is_precise and report.holds and report.injected == 1
    assert {output.name for output in report.outputs} == {"lines", "lines_rejected", "counts", "counts_sink"}
    (run,) = report.runs
    assert run.findings["lines"].rows == 10 * FILES
    assert run.findings["counts_sink"].rows == run.findings["counts"].rows > FILES
    assert {json.loads(path.read_text().splitlines()[0])["id"] for path in folder.iterdir()}  # its input is untouched


def test_pytest_is_no_dependency_of_the_package() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    dependencies = text[text.index("\ndependencies = [") : text.index("\n]", text.index("\ndependencies = ["))]
    assert "pytest" not in dependencies
