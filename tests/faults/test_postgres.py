"""PostgreSQL dies and comes back while a pipeline is at work.

Fault model. Survived: SIGKILL of the server, its absence for a while, a fast shutdown that breaks off whatever is
under way. Nodes wait and go on. Lost: nothing, not even a node.
"""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.faults.conftest import Trades
from tests.faults.scene import Scene
from tests.faults.soundness import assert_done, flaws
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(200)]

AWAY_S = 4.0  # longer than the lease


def files_below(folder: Path) -> list[Path]:
    """Everything that the run left on disk: records, logs, segments, what it printed."""
    return [file for file in folder.rglob("*") if file.is_file()]


def test_postgres_killed_and_restarted_under_load(
    tmp_path: Path, undisturbed: Trades, postgres_own: PostgresServer
) -> None:
    with Scene(tmp_path, "trades", keeper=postgres_own.url, TRADES_LEASE_S="3", TRADES_ROWS_MAX="100") as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        node = scene.ready_member()
        assert postgres_own.password not in " ".join(psutil.Process(node.pid).cmdline())
        postgres_own.kill()
        try:
            time.sleep(AWAY_S)
        finally:
            postgres_own.start()
        after = scene.head("joined")
        assert after < 20  # there is work left
        scene.until(lambda: scene.head("joined") >= after + 2, "epochs after the first fault")
        postgres_own.restart()
        assert_done(run.ends())

        with scene.keeper() as keeper:
            assert [member.incarnation for member in keeper.members(live=False)] == [node.incarnation]
            told = [*keeper.events(), *keeper.members(live=False), *keeper.failures(), *keeper.claims("joined")]
            assert postgres_own.password not in repr(told)
        assert [f for f in files_below(tmp_path) if postgres_own.password.encode() in f.read_bytes()] == []
        assert scene.events("node_died", "node_fenced", "node_replaced", "epoch_retried") == []
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed
