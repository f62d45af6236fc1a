"""``rekindle demo`` from its first word to its exit code, with a real supervisor, a real SIGKILL and fake nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from rekindle.cli import demo
from rekindle.cli.main import app
from rekindle.demo import course
from rekindle.demo.chain import STEPS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
    monkeypatch.setattr(demo, "check_java", lambda: None)
    monkeypatch.setattr(course, "RUN", (sys.executable, str(Path(__file__).with_name("fake_run.py"))))
    monkeypatch.setattr(course, "IDLE", "1s")


@pytest.mark.processes
@pytest.mark.parametrize(("options", "code", "damage"), [([], 0, {}), (["--sabotage", "lose"], 1, {"lost": 1})])
def test_the_exit_code_is_the_verdict(options: list[str], code: int, damage: dict[str, int]) -> None:
    result = CliRunner().invoke(app, ["demo", "--json", "--seconds", "5", "--kill-after", "1s", *options])
    said = orjson.loads(result.stdout)
    assert result.exit_code == code, said
    assert said["good"] is (code == 0)
    assert {
        kind: said["verdict"][kind] for kind in ("lost", "duplicated", "changed") if said["verdict"][kind]
    } == damage
    assert said["faults"] == []
    assert {moment["step"] for moment in said["chain"]} >= set(STEPS), "a node was killed and came back"
    assert said["verdict"]["delivered"] > 50
