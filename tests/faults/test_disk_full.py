"""A disk fills up, and is freed again: that of the home, that behind the sinks, that of Spark's own scratch.

Fault model. Survived: no byte can be written to the home for a while: not by Spark, not by the keeper's SQLite, not
by a log; nor to the folder of a sink; nor by the JVM to its scratch; a node dies while the home is full and the keeper
is elsewhere, so that it could be started in vain until it is given up. The pipeline goes on by itself when there is
room again. Lost: nothing; nothing failed for good.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.home import create_or_open
from rekindle.verify.faults_storage import fill
from tests.faults.conftest import Trades
from tests.faults.scene import ROOT, Scene
from tests.faults.soundness import assert_done, flaws
from tests.postgres import PostgresServer

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(250)]

SIZE = "256m"  # a node keeps some 50 MB in it, and waits for 16 MB to be free
FULL_S = 5.0
KEEPER = "REKINDLE_TEST_KEEPER"  # where the keeper is, for a test that runs in a name space of its own

SmallDisk = Callable[[Path], None]


@pytest.fixture
def small_disk() -> Iterator[SmallDisk]:
    """Makes a folder a file system of its own. Needs root, or a name space in which this user is root."""
    mounted: list[Path] = []

    def mount(folder: Path) -> None:
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(
                f"no small file system can be made here, not even with unshare -rm: {done.stderr}", pytrace=False
            )
        mounted.append(folder)

    yield mount
    for folder in reversed(mounted):
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_is_waited_out(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        as_root_of_a_name_space(test_full_disk_is_waited_out.__name__, tmp_path)
        return
    undisturbed, mount = request.getfixturevalue("undisturbed"), request.getfixturevalue("small_disk")
    disk = tmp_path / "disk"
    mount(disk)
    with Scene(tmp_path, "trades", home=disk / "home", TRADES_ROWS_MAX="100", TRADES_LEASE_S="10") as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        node = scene.ready_member()
        filler = disk / "filler"
        fill(filler)
        stuck_at = scene.head("joined")
        time.sleep(FULL_S)
        fill(filler)  # what was given back meanwhile
        assert os.statvfs(disk).f_bavail < 16 and scene.head("joined") <= stuck_at + 1 < 20
        filler.unlink()

        assert_done(run.ends())
        assert scene.events("disk_full") and scene.events("disk_wait_over")
        with scene.keeper() as keeper:
            assert keeper.failures() == []
            assert [member.incarnation for member in keeper.members(live=False)] == [node.incarnation]
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed


def test_other_full_disks_and_a_death_on_one_are_waited_out(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if KEEPER not in os.environ:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        url = postgres.database("other_full_disks")  # other tests have pipelines of the same name
        if os.geteuid() != 0:  # PostgreSQL runs out here: it does not run as root, of whatever name space
            as_root_of_a_name_space(request.node.name, tmp_path, keeper=url)
            return
    keeper_url = os.environ.get(KEEPER) or url
    undisturbed, mount = request.getfixturevalue("undisturbed"), request.getfixturevalue("small_disk")
    disk, out = tmp_path / "disk", tmp_path / "out"
    mount(disk)
    mount(out)
    home = create_or_open(disk / "home", "trades", keeper_url)
    scratch = home.work / ".scratch"
    mount(scratch)
    with Scene(tmp_path, "trades", home=home.root, keeper=keeper_url, TRADES_ROWS_MAX="50") as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        scene.until(lambda: scene.head("joined") >= 3, "epochs")
        node = scene.ready_member()

        fill(out / "filler")
        fill(scratch / "filler")
        told = {"bids", "asks", "joined", "spreads", "volumes"}
        scene.until(lambda: full_for(scene) & {"joined_sink", "spreads_sink"}, "a sink waits for room")
        scene.until(lambda: full_for(scene) & told, "Spark waits for room")
        assert not home.is_full()
        time.sleep(FULL_S)  # longer than a raising operator is tried
        (out / "filler").unlink()
        (scratch / "filler").unlink()
        stuck_at = scene.head("joined")
        scene.until(lambda: scene.head("joined") >= stuck_at + 2, "epochs after the first disks were full")
        assert stuck_at + 2 < 40  # there is work left

        fill(disk / "filler")
        scene.until(lambda: "trades" in full_for(scene), "the supervisor knows that the home is full")
        scene.signal(node, signal.SIGKILL)
        scene.until(lambda: scene.events("node_died"), "the death is noticed")
        time.sleep(FULL_S)
        fill(disk / "filler")  # what the dead gave back
        assert scene.head("joined") < 40 and len(scene.events("node_started")) == 1
        (disk / "filler").unlink()

        assert_done(run.ends())
        assert len(scene.events("node_died")) == 1
        assert scene.events("node_given_up", "node_not_started", "epoch_retried", "worker_failed") == []
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed


def as_root_of_a_name_space(test: str, folder: Path, keeper: str | None = None) -> None:
    """Run a test of this file where this user may mount."""
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command += [f"--basetemp={folder / 'inner'}", f"{Path(__file__)}::{test}"]
    environment = {**os.environ, **({KEEPER: keeper} if keeper is not None else {})}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"as root of a name space of its own:\n{done.stdout[-8000:]}{done.stderr[-2000:]}"


def full_for(scene: Scene) -> set[str]:
    """Who said that a disk is full."""
    return {event.subject for event in scene.events("disk_full")}
