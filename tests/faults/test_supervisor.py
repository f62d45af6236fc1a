"""The supervisor dies; then everything dies at once; then the user ends the run.

Fault model. Survived: SIGKILL of the supervisor at any moment, after which nodes go on without one and the next
one adopts them; SIGKILL of the supervisor and of all processes of the node at once; SIGINT, which drains to an
epoch boundary. Lost: nothing. A pipeline file whose stream has another schema than what is on record is refused.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.conftest import Trades
from tests.faults.scene import Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(250)]

EPOCHS = "100"  # rows in an epoch: 24 epochs at the least


def test_supervisor_killed_then_everything_at_once(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", TRADES_ROWS_MAX=EPOCHS) as scene:
        first = scene.start()
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 2, "epochs")
        node = scene.ready_member()
        first.kill()
        without = scene.head("joined")
        scene.until(lambda: scene.head("joined") >= without + 2, "epochs while no supervisor lives")
        assert scene.processes_of(node)

        second = scene.start()
        scene.until(lambda: scene.events("supervisor_adopted"), "the node is adopted")
        (adopted,) = scene.events("supervisor_adopted")
        assert (adopted.detail["pid"], adopted.detail["incarnation"]) == (node.pid, node.incarnation)
        adopted_at = scene.head("joined")
        scene.until(lambda: scene.head("joined") >= adopted_at + 1, "epochs under the second supervisor")
        assert scene.member() is not None and scene.events("node_died", "node_replaced", "node_fenced") == []

        second.process.send_signal(signal.SIGSTOP)  # so that it does nothing about what comes next
        assert scene.kill_nodes() >= 2  # the node and its JVM
        second.kill()
        assert len(scene.epochs("joined")) < 24  # there is work left
        assert_done(scene.run())
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed


def test_interrupt_drains_then_resumes_and_another_schema_is_refused(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", TRADES_ROWS_MAX=EPOCHS) as scene:
        run = scene.start()
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        os.kill(run.pid, signal.SIGINT)
        ended = run.ends()
        assert ended.code == 0 and ended.summary["ended"] == "interrupted", str(ended)
        assert ended.summary["not_drained"] == [] and scene.events("node_died", "node_fenced") == []
        with scene.keeper() as keeper:
            for fragment in ("joined", "spreads", "volumes"):  # at a boundary: what is claimed is published
                claim = keeper.last_claim(fragment)
                assert claim is not None and keeper.head(fragment) == claim.epoch
        assert scene.head("joined") < 24  # there is work left

        assert_done(scene.run())
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed

        scene.change_settings(TRADES_COUNT="CAST(n AS int) AS n")
        heads = {stream: scene.head(stream) for stream in ("bids", "volumes")}
        refused = scene.run()
        assert refused.code == 2, str(refused)
        error = refused.summary["error"]
        assert "stream 'volumes' has another schema" in error["primary"]
        assert "n:bigint" in error["detail"] and "n:int," in error["detail"]  # before and now
        assert {stream: scene.head(stream) for stream in heads} == heads
