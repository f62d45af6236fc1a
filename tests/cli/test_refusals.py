"""What is wrong before anything starts: each has its exit code, says what and where, and makes nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rekindle.cli import main
from rekindle.home import HomeLock, create_or_open
from tests.cli.conftest import Rekindle

HEAD = "import rekindle as rk\npipeline = rk.Pipeline('test')\npipeline.source('lines', rk.sources.Rate(10))\n"


def stream(name: str, *inputs: str) -> str:
    return f"@pipeline.stream(name={name!r})\ndef f({', '.join(inputs)}): return {inputs[0]}\n"


FILES = {
    "an unknown input": (stream("counts", "lnies"), "unknown stream 'lnies'"),
    "an unknown stream of a sink": ("pipeline.sink('x', rk.sinks.Console())\n", "delivers the unknown stream 'x'"),
    "a cycle": (stream("a", "lines", "b") + stream("b", "a"), "read each other in a cycle"),
    "a reserved name": (stream("rekindle_trim", "lines"), "'rekindle_trim'"),
    "a name that leads elsewhere": (stream("../out", "lines"), "'../out'"),
    "a name twice": (stream("lines", "lines"), "'lines'"),
    "what Python refuses": ("def f(:\n", "invalid syntax"),
    "what raises": ("1 / 0\n", "ZeroDivisionError"),
}


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize("wrong", FILES)
def test_a_wrong_file(rekindle: Rekindle, tmp_path: Path, command: str, wrong: str) -> None:
    code, told = FILES[wrong]
    file, home = tmp_path / "test.py", tmp_path / "home"
    file.write_text(HEAD + code)
    options = ["--home", home] if command == "run" else []
    answer = rekindle(command, file, *options)
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("error: ") and told in answer.err and str(file) in answer.err
    assert str(Path(main.__file__).parents[1]) not in answer.err  # of a traceback only the user's own lines
    error = rekindle(command, file, *options, "--json").json["error"]
    assert (error["kind"], error["exit_code"]) == ("DeclarationError", 2) and told in str(error)
    assert not home.exists()


def test_a_home_that_cannot_be_used(rekindle: Rekindle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.cli.run.check_java", lambda: None)
    file = tmp_path / "test.py"
    file.write_text(HEAD)

    def run(home: Path) -> tuple[int, str]:
        answer = rekindle("run", file, "--home", home, "--json")
        return answer.code, str(answer.json["error"]["primary"])

    used = create_or_open(tmp_path / "used", "test", None)
    lock = HomeLock(used)
    assert run(used.root) == (4, f"another run is on this home (process {os.getpid()})")
    lock.release()
    other = create_or_open(tmp_path / "other", "words", None)
    code, told = run(other.root)
    assert code == 4 and "words" in told
    record = json.loads((other.root / "home.json").read_text()) | {"version": 99}
    (other.root / "home.json").write_text(json.dumps(record))
    for args in (["run", str(file)], ["status"], ["read", "lines"], ["events"], ["logs"], ["kill", "main"], ["stop"]):
        answer = rekindle(*args, "--home", other.root)
        assert (answer.code, answer.out) == (4, ""), answer
        assert answer.err.startswith("error: the home was made by a newer Rekindle (home version 99")
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "letter").touch()
    assert run(strange) == (4, "the folder is not empty and is not a Rekindle home")


def test_ctrl_c(rekindle: Rekindle, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    for name in ("status", "read", "explain", "events", "logs", "kill", "stop"):
        module = ModuleType(f"rekindle.cli.{name}")
        setattr(module, name, interrupted)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        answer = rekindle(name)
        assert answer.code == 130 and "Traceback" not in answer.err, answer
