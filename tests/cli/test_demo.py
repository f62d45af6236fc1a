"""What the demonstration prints and how it ends, on outcomes made by hand; tests/demo/test_course.py runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from rekindle.cli import demo
from rekindle.cli.main import app
from rekindle.demo.chain import STEPS
from rekindle.demo.course import Plan
from rekindle.demo.outcome import Outcome
from rekindle.supervisor.chains import Moment
from rekindle.verify.trace import Content, Observation, Pause, RowKey, judge

EXPECTED = {RowKey(f"k{i}"): Content(f"v{i}") for i in range(3)}
TRACE = [Observation(key, content, 10.0) for key, content in EXPECTED.items()]
GOOD = Outcome(
    verdict=judge(TRACE, EXPECTED),
    pause=Pause(100.0, 117.25),
    pause_before=Pause(98.0, 99.5),
    moments=tuple(Moment(step, 100.5 + number, step) for number, step in enumerate(STEPS)),
    meanwhile={"matched": 1234, "logins": 0},
    disturbances=(),
    faults=(),
    sabotage=None,
)
LOST = dataclasses.replace(GOOD, verdict=judge(TRACE[1:], EXPECTED))


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Plan]]:
    def prepare(outcome: Outcome | type[BaseException]) -> list[Plan]:
        plans: list[Plan] = []

        def play(plan: Plan, *, as_json: bool) -> Outcome:
            assert plan.folder.is_dir()
            (plan.folder / "something").write_text("left by the run")
            plans.append(plan)
            if isinstance(outcome, Outcome):
                return outcome
            raise outcome

        monkeypatch.setattr(demo, "_play", play)
        monkeypatch.setattr(demo, "check_java", lambda: None)
        return plans

    return prepare


def test_a_good_verdict_is_exit_code_0_and_leaves_nothing(plays: Callable[..., list[Plan]]) -> None:
    plans = plays(GOOD)
    result = CliRunner().invoke(app, ["demo", "--seconds", "30", "--kill", "main"])
    assert result.exit_code == 0
    assert "verdict: GOOD" in result.stdout
    assert "longest pause     17.2 s" in result.stdout
    assert "the restart" in result.stdout
    assert "1,234 rows of matched" in result.stdout
    assert "noticed" in result.stdout
    assert (plans[0].victim, plans[0].scale.seconds, plans[0].kill_after_s) == ("main", 30, 20.0)
    assert not plans[0].folder.exists()


def test_a_bad_verdict_is_exit_code_1_and_shows_the_row(plays: Callable[..., list[Plan]]) -> None:
    plays(LOST)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert "verdict: BAD" in result.stdout
    assert "lost: k0" in result.stdout
    assert "expected v0" in result.stdout


@pytest.mark.parametrize(
    "bad", [{"faults": ("the node did not come back",)}, {"disturbances": ("epoch=1/part.json vanished",)}]
)
def test_whole_rows_are_not_enough_for_a_good_verdict(
    plays: Callable[..., list[Plan]], bad: dict[str, tuple[str, ...]]
) -> None:
    plays(dataclasses.replace(GOOD, **bad))  # type: ignore[arg-type]
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert next(iter(bad.values()))[0] in result.stdout


def test_json_is_one_value_on_stdout(plays: Callable[..., list[Plan]]) -> None:
    plays(LOST)
    result = CliRunner().invoke(app, ["demo", "--json"])
    record = orjson.loads(result.stdout)
    assert result.exit_code == 1
    assert (record["good"], record["verdict"]["lost"], record["longest_pause_s"]) == (False, 1, 17.25)
    assert [m["step"] for m in record["chain"]] == list(STEPS)


def test_ctrl_c_is_exit_code_130_and_leaves_nothing(plays: Callable[..., list[Plan]]) -> None:
    plans = plays(KeyboardInterrupt)
    assert CliRunner().invoke(app, ["demo"]).exit_code == 130
    assert not plans[0].folder.exists()


def test_keep_wants_a_folder_of_its_own(plays: Callable[..., list[Plan]], tmp_path: Path) -> None:
    plays(GOOD)
    assert CliRunner().invoke(app, ["demo", "--keep", str(tmp_path / "kept")]).exit_code == 0
    assert (tmp_path / "kept" / "something").exists()
    again = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path / "kept")])
    assert again.exit_code == 2
    assert (tmp_path / "kept" / "something").exists()


def test_help_says_that_the_verdict_can_be_made_bad() -> None:
    result = CliRunner().invoke(app, ["demo", "--help"])
    assert "--sabotage" in result.stdout
    assert "lose|duplicate|change" in result.stdout
