"""Parts of faults that need no pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.errors import RekindleError
from rekindle.node.steps import Steps
from rekindle.verify.faults import Fault, NotInjected, choose
from rekindle.verify.faults_storage import flip_a_bit, slow_disk
from rekindle.verify.inject import inject, plan_steps
from rekindle.verify.surroundings import Surroundings
from rekindle.verify.trial import Trial


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path / "trial", tmp_path / "p.py")


def test_one_bit_is_flipped(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    flip_a_bit(file)
    assert sum(byte.bit_count() for byte in file.read_bytes()) == 1 and file.stat().st_size == 100


def test_a_slow_disk_delays_what_is_synced_and_counts_it(tmp_path: Path) -> None:
    disk = slow_disk(tmp_path)
    sync = "import os, time; fd = os.open('f', os.O_CREAT | os.O_WRONLY); t = time.monotonic(); os.fsync(fd); "
    sync += "os.fdatasync(fd); print(time.monotonic() - t)"

    def seconds() -> float:
        env = {**os.environ, **disk.environment}
        return float(
            subprocess.run([sys.executable, "-c", sync], cwd=tmp_path, env=env, capture_output=True, check=True).stdout
        )

    seconds()
    assert not (tmp_path / "slow.count").exists()
    disk.file.write_text("150")
    assert seconds() >= 0.3
    assert (tmp_path / "slow.count").stat().st_size == 2


def test_what_cannot_be_had_is_told_and_no_error(tmp_path: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no compiler, no mount
    refusals = {"slow-disk": "C compiler", "full-disk": "mount", "cut-keeper": "--keeper postgresql"}
    around = Surroundings(tmp_path, postgres=False, lease_s=1.0)
    with around, around.prepared(tmp_path / "run", refusals.keys()) as ready:
        for kind, why in refusals.items():
            one = inject(trial, Fault(kind, 0.5, 0.5), ready.known)
            assert not one.happened and why in one.proof
        assert ready.home is None and ready.environment == {}


def test_what_happened_and_what_did_not(trial: Trial) -> None:
    def happens(trial: Trial, pick: float) -> str:
        return f"picked {pick}"

    def does_not(trial: Trial, pick: float) -> str:
        raise NotInjected("there was nobody")

    def is_not_survived(trial: Trial, pick: float) -> str:
        raise RekindleError("it goes on")

    known = {"kill-node": happens, "kill-jvm": does_not, "kill-all": is_not_survived}
    assert inject(trial, Fault("kill-node", 0.5, 0.25), known).proof == "picked 0.25"
    missed = inject(trial, Fault("kill-jvm", 0.5, 0.25), known)
    assert not missed.happened and missed.proof == "there was nobody"
    with pytest.raises(RekindleError):
        inject(trial, Fault("kill-all", 0.5, 0.25), known)


def test_one_of_several_is_chosen_by_a_number() -> None:
    assert [choose("abc", pick, "letter") for pick in (0.0, 0.34, 0.99)] == ["a", "b", "c"]
    with pytest.raises(NotInjected, match="there was no letter"):
        choose("", 0.5, "letter")


def test_steps_are_planned_where_the_undisturbed_run_got_to() -> None:
    heads, sinks = {"counts": 50, "lines": 20}, {"out": 40, "empty": 0}
    faults = [
        Fault("step", 0.5, 0.0, "after_publish"),
        Fault("step", 0.9, 0.9, "before_delivery"),
        Fault("kill-all", 0, 0),
    ]
    planned = plan_steps(faults, heads, sinks)
    assert list(planned) == ["kill:after_publish:counts:26", "kill:before_delivery:out:37"]
    assert [fault.step for fault in planned.values()] == ["after_publish", "before_delivery"]
    Steps.from_environment({"REKINDLE_STEPS": ",".join(planned), "REKINDLE_STEPS_DIR": "/"})  # it is understood


def test_steps_need_a_stream() -> None:
    with pytest.raises(RekindleError):
        plan_steps([Fault("step", 0.5, 0.0, "after_publish")], {}, {})
