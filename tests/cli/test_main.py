from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rekindle import errors
from rekindle.cli import main
from rekindle.errors import RekindleError
from tests.cli.conftest import Rekindle, Ward, words

HEAVY = {"pyspark", "pandas", "pyarrow", "numpy"}


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a command 'broken', to be given a function of that name."""
    module = ModuleType("rekindle.cli.broken")
    monkeypatch.setitem(sys.modules, "rekindle.cli.broken", module)
    monkeypatch.setitem(main.COMMANDS, "broken", "Fails.")
    return module


@pytest.mark.parametrize("args", [["--help"], ["statsu"], ["--version"]])
def test_nothing_heavy_is_imported_to_say_something_small(args: list[str]) -> None:
    program = (
        "import sys\nfrom rekindle.cli.main import app\n"
        f"try: app({args!r}, prog_name='rekindle')\nexcept SystemExit: pass\n"
        f"print('HEAVY', sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=_env(), check=True)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_help_lists_every_command_and_the_exit_codes(rekindle: Rekindle) -> None:
    answer = rekindle("--help")
    assert answer.code == 0
    for name in main.COMMANDS:
        assert name in answer.out
    shown = " ".join(answer.out.split())
    codes = {e.exit_code for e in vars(errors).values() if isinstance(e, type) and issubclass(e, RekindleError)}
    for code in codes | {0, 130}:
        assert f"{code} " in shown[shown.index("Exit codes") :]


def test_a_mistyped_command_gets_a_suggestion(rekindle: Rekindle) -> None:
    answer = rekindle("statsu")
    assert answer.code == 2
    assert "Did you mean 'status'?" in answer.err


@pytest.mark.parametrize("name", ["status", "read", "events", "logs", "kill", "stop", "audit"])
def test_every_command_explains_itself(rekindle: Rekindle, name: str) -> None:
    answer = rekindle(name, "--help")
    assert answer.code == 0
    assert f"rekindle {name}" in answer.out or f"root {name}" in answer.out
    assert "--home" in answer.out


def test_an_error_has_three_parts_and_its_exit_code(rekindle: Rekindle, command: ModuleType) -> None:
    def broken() -> None:
        raise errors.HomeInUse("another run is here", detail="process 1\x1b[2J", hint="wait [bold]for it[/bold]")

    command.broken = broken  # type: ignore[attr-defined]
    answer = rekindle("broken")
    assert answer.code == 4
    assert answer.out == ""
    assert answer.err.splitlines() == [
        "error: another run is here",
        "process 1\\x1b[2J",
        "hint: wait [bold]for it[/bold]",
    ]


def test_long_errors_are_not_wrapped(rekindle: Rekindle, command: ModuleType) -> None:
    def broken() -> None:
        raise RekindleError("x" * 500)

    command.broken = broken  # type: ignore[attr-defined]
    assert "x" * 500 in rekindle("broken").err


def test_an_error_as_json_has_the_same_facts(rekindle: Rekindle, command: ModuleType) -> None:
    def broken(json: bool = False) -> None:
        raise errors.KeeperUnavailable("no answer", detail="postgresql://me:secret@db/x", hint="wait")

    command.broken = broken  # type: ignore[attr-defined]
    answer = rekindle("broken", "--json")
    assert answer.code == 5
    assert answer.json == {
        "error": {
            "kind": "KeeperUnavailable",
            "primary": "no answer",
            "detail": "postgresql://me@db/x",
            "hint": "wait",
            "exit_code": 5,
        }
    }
    assert "secret" not in answer.out + answer.err


def test_the_unexpected_is_one_line_and_a_file(
    rekindle: Rekindle, command: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken() -> None:
        raise ZeroDivisionError("by nought\nat postgresql://me:secret@db/x")

    command.broken = broken  # type: ignore[attr-defined]
    answer = rekindle("broken")
    assert answer.code == 1
    assert answer.err.startswith("error: unexpected ZeroDivisionError: by nought\n")
    assert "Traceback" not in answer.err
    (file,) = tmp_path.glob("rekindle-error-*")
    assert str(file) in answer.err
    text = file.read_text()
    assert "Traceback" in text
    assert "ZeroDivisionError" in text
    assert "secret" not in text


def test_debug_shows_the_traceback(rekindle: Rekindle, command: ModuleType) -> None:
    def broken() -> None:
        raise ZeroDivisionError("by nought")

    command.broken = broken  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        rekindle("--debug", "broken")


@pytest.mark.parametrize("args", [["read", "lines", "--json"], ["events", "--json"]])
def test_a_reader_that_goes_away_is_no_error(ward: Ward, args: list[str]) -> None:
    ward.stream("lines")
    ward.publish("lines", words(*(f"a rather long word {i}" for i in range(20_000))))
    for i in range(50):
        ward.keeper.event("made_up", "nobody", text="x" * 10_000, number=i)
    process = subprocess.Popen(
        [sys.executable, "-m", "rekindle", *args, "--home", str(ward.home.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_env(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == b"{"
    process.stdout.close()  # long before the end: far more than a pipe holds is still to come
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert complaint == b""


def test_only_what_does_nothing_but_print_may_end_well_without_its_reader(
    rekindle: Rekindle, command: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise BrokenPipeError

    command.broken = broken  # type: ignore[attr-defined]
    assert rekindle("broken").code == 1
    monkeypatch.setattr(main, "PRINTING", ("broken",))
    assert rekindle("broken").code == 0


def test_a_kill_whose_reader_went_away_keeps_its_exit_code(ward: Ward) -> None:
    ward.keeper.leave(ward.node)
    reading, writing = os.pipe()
    os.close(reading)
    for args, code in ((["stop"], 0), (["kill", "main"], 1), (["kill", "nobody", "--json"], 2)):
        command = [sys.executable, "-m", "rekindle", *args, "--home", str(ward.home.root)]
        done = subprocess.run(command, stdout=writing, stderr=writing, env=_env(), check=False)
        assert done.returncode == code, args
    os.close(writing)


@pytest.mark.parametrize(
    "args", [["status"], ["status", "--json"], ["read", "lines"], ["events"], ["read", "none", "--json"]]
)
def test_a_reader_that_never_was_is_no_error(ward: Ward, args: list[str]) -> None:
    ward.stream("lines")
    ward.publish("lines", words("a"))
    ward.keeper.event("made_up", "nobody")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "rekindle", *args, "--home", str(ward.home.root)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=_env(), check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (2 if "none" in args else 0, b"")


def _env() -> dict[str, str]:
    source = Path(main.__file__).parents[2]
    return {**os.environ, "PYTHONPATH": str(source)}
