"""A Spark executor that is lost is Spark's own matter.

Fault model. Survived: an executor's process is killed (SIGKILL) while its node's driver lives; Spark starts another
and runs its tasks again. Lost: nothing. It does not look like a node's failure: no node dies, nothing is taken over.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from rekindle.keeper.records import Member, Span
from rekindle.sources import Rate
from tests.faults.scene import Scene
from tests.faults.soundness import assert_done, flaws
from tests.sources.collect import Collected

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(300)]


def test_a_lost_executor_is_no_lost_node(tmp_path: Path) -> None:
    with Scene(tmp_path, "cluster") as scene:
        run = scene.start("--until-idle", "3s")
        witness = scene.watched()
        scene.until(lambda: scene.head("counts") >= 5, "epochs", timeout_s=120)
        member = scene.ready_member()
        before = executors(scene, member)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        scene.until(lambda: set(executors(scene, member)) - set(before), "Spark has started another executor")
        assert_done(run.ends())

        (lost,) = scene.events("executor_lost")
        assert lost.subject == "main"
        assert not scene.events("node_died", "node_fenced", "worker_failed", "node_replaced")
        assert {e.incarnation for e in scene.epochs("counts")} == {member.incarnation}
        assert flaws(scene) == [] and witness.changed() == []
        reader = Rate(100, keys=20, seed=1, start=1_700_000_000.0, limit=1000).open(())
        batch = Collected()
        reader.read(Span(None, reader.newest(None, 1000)), batch)
        expected = Counter(row["key"] for row in batch.rows())
        assert {key: n for (key,), (n,) in scene.final("counts", 1).items()} == expected


def executors(scene: Scene, member: Member) -> list[int]:
    """The processes of a node that are executors."""
    found = []
    for pid in scene.processes_of(member):
        try:
            command = psutil.Process(pid).cmdline()
        except psutil.NoSuchProcess:
            continue
        if any("CoarseGrainedExecutorBackend" in word for word in command):
            found.append(pid)
    return sorted(found)
