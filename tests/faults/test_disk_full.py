"""The disk of the home fills up, and is freed again.

Fault model. Survived: no byte can be written to the home for a while: not by Spark, not by the keeper's SQLite, not
by a log. The pipeline goes on by itself when there is room again. Lost: nothing; nothing failed for good.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Trades
from tests.faults.scene import ROOT, Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(250)]

SIZE = "256m"  # a node keeps some 50 MB in it, and waits for 16 MB to be free
FULL_S = 5.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own. Needs root, or a name space in which this user is root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"no small file system can be made here, not even with unshare -rm: {done.stderr}", pytrace=False)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_is_waited_out(request: pytest.FixtureRequest) -> None:
    if os.geteuid() == 0:
        fill_and_free(request)
        return
    this = f"{Path(__file__)}::test_full_disk_is_waited_out"
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", this]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"as root of a name space of its own:\n{done.stdout[-8000:]}{done.stderr[-2000:]}"


def fill_and_free(request: pytest.FixtureRequest) -> None:
    disk: Path = request.getfixturevalue("small_disk")
    undisturbed: Trades = request.getfixturevalue("undisturbed")
    with Scene(disk.parent, "trades", home=disk / "home", TRADES_ROWS_MAX="100", TRADES_LEASE_S="10") as scene:
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


def fill(path: Path) -> None:
    """Write until nothing more fits."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 4096):
            try:
                while True:
                    os.write(fd, b"\0" * size)
            except OSError:
                continue
    finally:
        os.close(fd)
