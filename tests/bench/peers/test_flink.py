"""Flink's parent and its outputs, with scripts in place of its processes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bench.peers import flink
from bench.peers.base import Peer, PeerFailed, Place, Shown, marked
from bench.peers.flink import JOB, TASKS, Flink
from bench.peers.flink_home import FlinkHome
from tests.bench.workloads import AS_IT_IS, numbered


class Fake(Flink):
    """Its processes only sleep; it lists whom it runs, and notes from where a job goes on."""

    submitted: list[Path | None]

    def _command(self, name: str) -> list[str]:
        super()._command(name)
        return [sys.executable, "-I", "-c", "import time; time.sleep(600)"]

    def _submit(self, checkpoint: Path | None) -> None:
        self.submitted.append(checkpoint)

    def _ask(self, path: str) -> dict[str, Any]:
        if path == "/taskmanagers":
            return {"taskmanagers": [{"id": name} for name in self._ids.values()]}
        return {"jobs": [{"state": "RUNNING", "tasks": {"running": 4, "total": 4}}]}


def checked_until(peer: Peer) -> None:
    """Until the check raises."""
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        peer.check()
        time.sleep(0.01)


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str = TASKS[0]) -> Fake:
    monkeypatch.setattr(flink, "flink_home", lambda _say: FlinkHome((tmp_path / "a.jar",), ()))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    peer = Fake("flink", Place(tmp_path / "run", tmp_path / "in", 1), AS_IT_IS, tuned=False, say=print, dies=dies)
    peer.submitted = []
    return peer


def test_a_task_manager_that_was_killed_is_started_again_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path, monkeypatch) as peer:
        assert isinstance(peer, Fake) and len(peer.processes()) == 3
        until(peer.redundant)
        before = dict(peer._ids)
        peer.kill()
        assert not peer.redundant()
        until(lambda: peer._ids[TASKS[0]] != before[TASKS[0]] and peer.redundant())
        peer.check()
        assert peer._ids[TASKS[1]] == before[TASKS[1]] and peer.submitted == [None]
    assert marked(peer.mark) == []


def test_where_the_job_manager_dies_the_job_goes_on_from_its_newest_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(tmp_path, monkeypatch, dies=JOB) as peer:
        assert isinstance(peer, Fake)
        for number, age_s in ((9, 5.0), (10, 1.0)):
            folder = peer.run / "checkpoints" / "job" / f"chk-{number}"
            folder.mkdir(parents=True)
            (folder / "_metadata").touch()
            os.utime(folder / "_metadata", (time.time() - age_s,) * 2)
        peer.kill()
        until(lambda: len(peer.submitted) == 2)
        assert peer.submitted[1] is not None and peer.submitted[1].name == "chk-10"


def test_a_process_that_ends_by_itself_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(tmp_path, monkeypatch) as peer:
        assert isinstance(peer, Fake)
        peer._running[TASKS[1]].kill()
        with pytest.raises(PeerFailed, match="the task2 manager ended by itself"):
            checked_until(peer)


def test_a_file_is_an_output_once_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = made(tmp_path, monkeypatch)
    peer.output.mkdir(parents=True)
    pq.write_table(numbered(0, 5), peer.output / ".part-0-0.inprogress.1")
    assert peer.outputs() == []
    (peer.output / ".part-0-0.inprogress.1").rename(peer.output / "part-0-0")
    assert [output.rows for output in peer.outputs()] == [5] and peer.gone() == []


def test_what_was_shown_later_comes_later_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = made(tmp_path, monkeypatch)
    peer.output.mkdir(parents=True)
    for at_s, name in ((1.0, "part-b-0-9"), (2.0, "part-b-0-10"), (3.0, "part-a-0-0")):
        path = peer.output / name
        pq.write_table(numbered(int(at_s), 5), path)
        peer._seen.add(name)
        peer.sight.add(Shown(name, at_s, (path,), 5))
    assert [table["seq"][0].as_py() for table in peer.results()] == [1, 2, 3]
