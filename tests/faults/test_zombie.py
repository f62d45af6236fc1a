"""A node that hangs is replaced, and finds out when it wakes.

Fault model. Survived: the node's process group is stopped (SIGSTOP) in the middle of its work, is taken for dead
when its lease has run out, and goes on (SIGCONT) after another has taken over. Or its JVM alone is stopped, while its
Python process runs on. Lost: nothing; the woken one publishes and delivers nothing, and ends by itself, fenced.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rekindle.supervisor.processes import start_ticks
from tests.faults.conftest import Trades
from tests.faults.scene import Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(200)]


def test_stopped_node_is_replaced_and_fenced(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", TRADES_LEASE_S="3", TRADES_ROWS_MAX="100") as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        zombie = scene.ready_member()
        scene.hang(zombie)
        scene.until(lambda: scene.events("node_fenced"), "its lease runs out")
        (fenced,) = scene.events("node_fenced")
        assert fenced.detail["incarnation"] == zombie.incarnation and "no heartbeat" in fenced.detail["why"]
        assert scene.stopped(zombie.pid)

        heir = scene.ready_member()
        assert heir.incarnation > zombie.incarnation
        taken_over = scene.head("joined")
        scene.until(lambda: scene.head("joined") > taken_over, "epochs of the one that took over")

        scene.signal(zombie, signal.SIGCONT)
        scene.until(lambda: start_ticks(zombie.pid) is None, "the zombie ends by itself")
        assert "was fenced" in scene.home.logs.joinpath(f"main-{zombie.incarnation}.log").read_text()
        assert not [e for e in scene.events("node_killed") if e.detail["incarnation"] == zombie.incarnation]
        assert_done(run.ends())

        late = [e for s in ("bids", "joined", "spreads", "volumes") for e in scene.epochs(s)]
        late = [e for e in late if e.published_at_s > fenced.at_s]
        assert late and {e.incarnation for e in late} == {heir.incarnation}
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed


def test_a_node_whose_jvm_hangs_is_replaced_and_fenced(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", TRADES_LEASE_S="3", TRADES_ROWS_MAX="100") as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        zombie = scene.ready_member()
        jvm = int(zombie.report["jvm_pid"])
        os.kill(jvm, signal.SIGSTOP)
        assert not scene.stopped(zombie.pid)
        scene.until(lambda: scene.events("node_fenced"), "its lease runs out")
        (fenced,) = scene.events("node_fenced")
        assert fenced.detail["incarnation"] == zombie.incarnation and "no heartbeat" in fenced.detail["why"]
        scene.until(lambda: start_ticks(zombie.pid) is None, "its Python process finds out, and ends")
        assert_done(run.ends())
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed
