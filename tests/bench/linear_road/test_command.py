"""The command without its pipeline: a fake one, which answers what the oracle says, or all but one answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench._place import Place
from bench.linear_road import __main__ as command
from bench.linear_road.drive import Paced, RunFailed
from bench.linear_road.oracle import FIELDS
from bench.linear_road.staging import Staged
from bench.linear_road.world import ANSWERS

EXPECTED_PARTS = {"warm": 2, "paced": 20}  # of --quick: 20 s in files of ten, then the lead and the rest


class Fake:
    """Writes its answers, but for the first ``loses`` tolls, ``took_s`` after the paced part began."""

    loses = 0
    took_s = 0.0
    fails = False

    def __init__(self, folder: Path, place: Place, cores: int, say: Callable[[str], None]) -> None:
        self._output = place.output

    def drive(self, staged: Staged, *, with_kill: bool) -> Paced:
        if self.fails:
            raise RunFailed("it does not start\nfor a reason")
        assert {"warm": len(staged.warm), "paced": len(staged.paced)} == EXPECTED_PARTS
        epoch = self._output / "epoch=000000000001"
        epoch.mkdir(parents=True)
        rows = [
            {"type": kind, **dict(zip(names, row, strict=True))}
            for kind, names in FIELDS.items()
            for row in staged.answers[kind].tolist()
        ][self.loses :]
        table = {name: pa.array([row.get(name, -1) for row in rows], pa.int32()) for name in ANSWERS}
        pq.write_table(pa.table(table), epoch / "part-00000.parquet")
        began_s = epoch.stat().st_ctime - len(staged.paced) - self.took_s
        return Paced(began_s, len(staged.paced), 0.0, None, 1.0, 1.0, {"toll_calculator": 1, "collector": 1})


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *, quick: bool = True) -> tuple[int, dict[str, object]]:
    said = folder / "said.json"
    short = ["--quick"] if quick else ["--warm", "20", "--lead", "5", "--paced", "15", "--minute", "30"]
    monkeypatch.setattr(sys, "argv", ["linear_road", *short, "--json", str(said), "--keep", str(folder / "kept")])
    monkeypatch.setattr(command, "Run", Fake)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process's handlers stay as they are
    code = command.main()
    return code, json.loads(said.read_text())["runs"][0]


def test_right_answers_pass_and_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, told = run(monkeypatch, tmp_path)
    assert code == 0 and told["right"] is True


def test_one_lost_answer_fails_also_a_quick_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Fake, "loses", 1)
    code, told = run(monkeypatch, tmp_path)
    assert code == 1 and told["right"] is False
    assert "WRONG" in capsys.readouterr().out


def test_late_answers_fail_unless_the_run_is_quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Fake, "took_s", 60.0)
    code, told = run(monkeypatch, tmp_path, quick=False)
    assert code == 1 and told["right"] is True and told["in_time"] is False


def test_a_pipeline_that_does_not_run_fails_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Fake, "fails", True)
    assert run(monkeypatch, tmp_path)[0] == 1
    assert "FAILED: it does not start" in capsys.readouterr().out
