"""Each named step is where its name says.

The process is stopped (SIGSTOP) at one step after the other. While it stands still, the keeper and the disk are
looked at; then it goes on. So the tests that kill at a step are known to kill there and nowhere else.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.keeper.records import EpochNumber, Member
from rekindle.state import checkpoint
from tests.faults.scene import Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(200)]

JOINED = (
    "stop:before_claim:joined:2",
    "stop:after_claim:joined:2",
    "stop:during_compute:joined:2",
    "stop:before_publish:joined:2",
    "stop:after_publish:joined:2",
)

STAMPS = (
    "stop:before_claim:ticks:2",
    "stop:after_claim:ticks:2",
    "stop:during_compute:ticks:2",
    "stop:before_publish:ticks:2",
    "stop:after_publish:ticks:2",
    "stop:before_claim:odd:2",
    "stop:after_claim:odd:2",
    "stop:during_compute:odd:2",
    "stop:before_publish:odd:2",
    "stop:after_publish:odd:2",
    "stop:before_delivery:stamped_sink:2",
    "stop:after_delivery:stamped_sink:2",
)


def test_steps_of_a_stateful_fragment(tmp_path: Path) -> None:
    with Scene(tmp_path, "trades", faults=JOINED, TRADES_LIMIT="600") as scene:
        run = scene.start("--until-idle", "2s")
        member = scene.ready_member()
        stop_at_each(scene, member)
        assert_done(run.ends())
        assert flaws(scene) == []


def test_steps_of_ingest_of_a_stateless_fragment_and_of_delivery(tmp_path: Path) -> None:
    with Scene(tmp_path, "stamps", faults=STAMPS, STAMPS_LIMIT="300") as scene:
        (tmp_path / "notes").mkdir()
        (tmp_path / "readings").mkdir()
        run = scene.start("--until-idle", "2s")
        scene.until(lambda: scene.marks(), "the first step is reached")
        member = scene.member()
        assert member is not None
        stop_at_each(scene, member)
        assert_done(run.ends())
        assert flaws(scene, called=("told",)) == []


def stop_at_each(scene: Scene, member: Member, look: Callable[[str], object] = lambda step: None) -> None:
    """Check each step that the scene stops at, in whatever order they come; ``look`` checks more."""
    left = set(scene.faults)
    while left:
        scene.until(lambda: scene.marks() & left and scene.stopped(member.pid), f"stopped at one of {sorted(left)}")
        (here,) = scene.marks() & left
        _, step, subject, epoch = here.split(":")
        check(scene, step, subject, EpochNumber(int(epoch)))
        look(step)
        left.remove(here)
        scene.signal(member, signal.SIGCONT)


def check(scene: Scene, step: str, subject: str, epoch: EpochNumber) -> None:
    with scene.keeper() as keeper:
        delivered = keeper.delivered(subject)
        claimed = keeper.claim_of(subject, epoch) is not None
        head = keeper.head(subject)
    if subject.endswith("_sink"):
        folder = scene.folder / "out" / subject.removesuffix("_sink") / f"epoch={epoch:012d}"
        assert (delivered, folder.exists()) == (epoch - 1, step == "after_delivery"), step
        return
    attempts = list((scene.home.streams / subject).glob(f"{epoch:012d}-*"))
    segments = [path for attempt in attempts for path in attempt.glob("*.parquet")]
    computing = [attempt for attempt in attempts if (attempt / "spark").exists()]
    facts = (claimed, head == epoch, bool(attempts))
    if step == "before_claim":
        assert facts == (False, False, False), step
    elif step == "after_claim":
        assert facts == (True, False, False), step
    elif step == "during_compute":
        assert facts == (True, False, True), step
        # A reader that starts no Spark job writes its segments itself.
        assert bool(segments) if subject == "ticks" else (bool(computing) and not segments)
    elif step == "before_publish":
        assert facts == (True, False, True) and segments and not computing, step
    else:
        assert step == "after_publish"
        assert facts == (True, True, True), step
        checkpoints = list((scene.home.work / subject).glob("*-*/checkpoint"))
        assert [checkpoint.standing(c).epoch for c in checkpoints] == ([epoch - 1] if subject == "joined" else [])
