"""What people put into a pipeline file, and what they are told about it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle.errors import DeclarationError
from rekindle.load import fingerprint, load_pipeline

GOOD = "from rekindle.pipeline import Pipeline\npipeline = Pipeline('words')\nalias = pipeline\n"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name in ("beside", "rekindle_pipeline_words"):
            del sys.modules[name]


def write(folder: Path, text: str, name: str = "words.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refusal(file: Path) -> DeclarationError:
    with pytest.raises(DeclarationError) as caught:
        load_pipeline(file)
    return caught.value


def test_one_pipeline_also_under_two_names(tmp_path: Path) -> None:
    assert load_pipeline(write(tmp_path, GOOD)).name == "words"


def test_a_module_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, "NAME = 'words'\n", "beside.py")
    file = write(tmp_path, "from beside import NAME\nfrom rekindle.pipeline import Pipeline\np = Pipeline(NAME)\n")
    assert load_pipeline(file).name == "words"
    assert str(tmp_path) in os.environ["PYTHONPATH"].split(os.pathsep)  # for Spark's Python workers


def test_dataclasses_with_postponed_annotations(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    assert load_pipeline(write(tmp_path, text + GOOD)).name == "words"


def test_missing_file(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.py")
    assert "none.py" in error.primary
    assert error.exit_code == 2


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path).primary


def test_syntax_error_shows_the_line(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, GOOD + "def broken(:\n"))
    assert ":4" in error.detail
    assert "def broken(:" in error.detail


@pytest.mark.parametrize("content", [b"\x00", b"\xff\xfe"])
def test_not_text(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "words.py"
    file.write_bytes(content)
    assert "not Python" in refusal(file).primary


def test_an_exception_shows_only_the_users_lines(tmp_path: Path) -> None:
    write(tmp_path, "def f():\n    import json\n    json.loads('{')\n", "beside.py")
    error = refusal(write(tmp_path, "from beside import f\nf()\n"))
    assert "JSONDecodeError" in error.primary
    assert "beside.py:3" in error.primary
    assert "words.py" in error.detail
    assert "load.py" not in error.detail
    assert "decoder.py" not in error.detail


def test_sys_exit_is_an_error(tmp_path: Path) -> None:
    assert "SystemExit" in refusal(write(tmp_path, GOOD + "raise SystemExit(0)\n")).primary


def test_a_missing_module_is_named(tmp_path: Path) -> None:
    assert "no_such_module" in refusal(write(tmp_path, "import no_such_module\n")).hint


@pytest.mark.parametrize("expression", ["F.col('a')", "F.explode('a')"])
def test_spark_at_module_level(tmp_path: Path, expression: str) -> None:
    file = write(tmp_path, f"from pyspark.sql import functions as F\nx = {expression}\n")
    program = (
        "import sys, pathlib; from rekindle.load import load_pipeline; from rekindle.errors import DeclarationError\n"
        "try: load_pipeline(pathlib.Path(sys.argv[1]))\n"
        "except DeclarationError as error: print(error.primary, error.hint, sep='|')"
    )  # in a process of its own, since other tests have a session
    said = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True).stdout
    primary, _, hint = said.partition("|")
    assert "words.py:2" in primary
    assert "into the function" in hint


def test_the_users_own_assertion_gets_no_such_hint(tmp_path: Path) -> None:
    assert refusal(write(tmp_path, "assert False\n")).hint == ""


def test_our_own_refusals_pass_through(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "from rekindle.pipeline import Pipeline\np = Pipeline('Not A Name')\n"))
    assert "not a usable name" in error.primary


@pytest.mark.parametrize(
    "wrong",
    [
        "rk.sources.Files('in', format='jsn')",
        "rk.sources.Files('in', format='json')",
        "rk.sources.Rate(0)",
        "rk.sources.Spark('rekindle')",
        "rk.sinks.Console(-1)",
        "rk.Settings(attempts_max=0)",
        "rk.Pipeline('words', settings=rk.Settings(pool=-1))",
    ],
)
def test_every_refusal_of_a_declaration_has_its_place(tmp_path: Path, wrong: str) -> None:
    error = refusal(write(tmp_path, f"import rekindle as rk\nwords = rk.Pipeline('w')\n{wrong}\n"))
    assert error.detail.startswith(f"{tmp_path / 'words.py'}:3")


def test_a_place_is_that_of_the_users_innermost_line_and_said_once(tmp_path: Path) -> None:
    write(tmp_path, "import rekindle as rk\ndef source():\n    return rk.sources.Rate(0)\n", "beside.py")
    error = refusal(write(tmp_path, "from beside import source\nsource()\n"))
    assert error.detail == f"{tmp_path / 'beside.py'}:3"
    error = refusal(write(tmp_path, "import rekindle as rk\np = rk.Pipeline('Not A Name')\n"))
    assert error.detail == f"{tmp_path / 'words.py'}:2"


def test_no_pipeline(tmp_path: Path) -> None:
    assert "no pipeline" in refusal(write(tmp_path, "x = 1\n")).primary


def test_two_pipelines_are_both_named(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, GOOD + "other = Pipeline('more')\n"))
    assert "words.py:2" in error.detail
    assert "words.py:4" in error.detail


def test_the_fingerprint_knows_what_matters(tmp_path: Path) -> None:
    write(tmp_path, "X = 1\n", "beside.py")
    file = write(tmp_path, "import beside\n" + GOOD)
    pipeline = load_pipeline(file)
    before = fingerprint(file, pipeline)
    assert fingerprint(file, pipeline) == before
    assert fingerprint(file, pipeline, cores=1) != before
    write(tmp_path, "X = 2\n", "beside.py")
    assert fingerprint(file, pipeline) != before
    write(tmp_path, "X = 1\n", "beside.py")
    assert fingerprint(file, pipeline) == before
    write(tmp_path, "import beside\n" + GOOD + "# another\n")
    assert fingerprint(file, pipeline) != before
