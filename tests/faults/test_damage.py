"""Damage and mistakes that no restart can heal: what is hit stops and says why, the others go on.

Fault model. Survived: a segment of a published epoch is damaged on disk, another one is gone; a user's function
raises on one row, every time, another one crashes Python on it; a Python worker of Spark is killed while it computes,
more often than a function may raise. What cannot be computed stops its own fragment only, with the reason on record,
and the run ends with the exit code for that. Lost: nothing; once the
files are back and the code is mended, the next run finishes the work. Not survived: segments that stay lost.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from rekindle.keeper.records import Failure, Member
from tests.faults.scene import Row, Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(250)]

MISTAKE = 'raise ValueError("this row is not understood")'
CRASH = "os.kill(os.getpid(), signal.SIGSEGV)"
KILLS = 4  # more than attempts_max, and fewer than restarts_max
EPOCH = 6  # the one whose segments are hit


def test_damaged_segments_a_raising_operator_and_a_killed_worker(tmp_path: Path) -> None:
    with Scene(tmp_path, "damage") as scene:
        assert_done(scene.run())
        corrupt, missing = segment(scene, "even"), segment(scene, "third")
        good = corrupt.read_bytes()
        flip_a_bit(corrupt, "value")
        missing.rename(tmp_path / "aside")

        scene.change_settings(READERS="1")
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        kill_the_worker_again_and_again(scene)
        ended = run.ends()
        assert ended.code == 3, str(ended)
        failures = failures_of(scene)
        assert failures.keys() == {"sums", "thirds", "scored", "crashed"}

        for subject, stream, path in (("sums", "even", corrupt), ("thirds", "third", missing)):
            told = failures[subject].reason + failures[subject].traceback
            assert "SegmentDamaged" in told and repr(stream) in told and f"epoch {EPOCH} " in told and str(path) in told
            assert scene.head(subject) == EPOCH - 1
            assert str(path) in str(ended.summary["failures"])
        scored = failures["scored"]
        assert "ValueError: this row is not understood" in scored.reason
        assert f'File "{scene.file}", line {line_of(scene, MISTAKE)}, in score' in scored.traceback
        assert scene.head("scored") == scored.epoch - 1
        retried = [e for e in scene.events("epoch_retried") if e.subject == "scored" and e.detail["epoch"] == EPOCH]
        assert [e.detail["attempt"] for e in retried] == [1, 2]  # the third attempt was the last
        crashed = failures["crashed"]
        assert "Python worker of Spark died without an exception, 5 times" in crashed.reason
        assert "Segmentation fault" in crashed.traceback
        assert f'File "{scene.file}", line {line_of(scene, CRASH)} in crash' in crashed.traceback
        assert (scene.head("crashed"), crashed.epoch) == (EPOCH - 1, EPOCH)
        assert [row[0] for row in scene.rows("fine")] == list(range(1000))  # the others went on
        gone = f"{missing.relative_to(scene.root)} is gone"
        assert flaws(scene, open_ended=("sums", "thirds", "scored", "crashed")) == [gone]

        corrupt.write_bytes(good)
        (tmp_path / "aside").rename(missing)
        scene.file.write_text(scene.file.read_text().replace(MISTAKE, "return 0").replace(CRASH, "return 0"))
        assert_done(scene.run())
        assert failures_of(scene) == {}
        assert flaws(scene) == []
        assert witness.changed() == []
        assert scene.final("sums", 1) == sums_of(scene.rows("even"))
        assert scene.rows("thirds") == [(row[1],) for row in scene.rows("third")]
        assert scene.rows("scored") == [(seq, 0 if seq == 550 else seq * 2) for seq in range(1000)]
        assert scene.rows("crashed") == [(0 if seq == 550 else seq,) for seq in range(1000)]


def flip_a_bit(path: Path, column: str) -> None:
    """One bit of the last page of a column: most likely it still decodes, into other values."""
    group = pq.read_metadata(path).row_group(0)
    (chunk,) = [c for c in (group.column(i) for i in range(group.num_columns)) if c.path_in_schema == column]
    content = bytearray(path.read_bytes())
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    content[first + chunk.total_compressed_size - 2] ^= 1
    path.write_bytes(content)


def line_of(scene: Scene, code: str) -> int:
    """Where it stands in the pipeline file."""
    text = scene.file.read_text()
    return text[: text.index(code)].count("\n") + 1


def kill_the_worker_again_and_again(scene: Scene) -> None:
    """SIGKILL of the Python worker that computes, and of the daemon that forks workers. No function raised, so that
    counts as no attempt."""
    told = scene.folder / "worker"
    scene.until(told.exists, "a worker computes")
    node = scene.ready_member()
    for kills in range(1, KILLS + 1):
        scene.until(lambda: computing(scene, node, told), "a worker computes")
        victims = computing(scene, node, told)
        told.unlink()
        for victim in victims:
            victim.kill()
        scene.until(partial(noticed, scene, kills), "the death is noticed")
    (scene.folder / "go-on").touch()
    after = scene.head("scored")
    scene.until(lambda: scene.head("scored") > after, "epochs after the workers' deaths")
    assert scene.events("node_died", "node_fenced") == [] and scene.ready_member().incarnation == node.incarnation
    assert not [e for e in scene.events("epoch_retried") if e.subject == "scored" and e.detail["epoch"] < EPOCH]


def computing(scene: Scene, node: Member, told: Path) -> list[psutil.Process]:
    """The worker that told of itself, and the daemon that forked it, if Spark has not ended that one; nothing if the
    worker is gone."""
    if not told.exists() or not (pid := told.read_text()):
        return []
    try:
        worker = psutil.Process(int(pid))
        assert "pyspark" in " ".join(worker.cmdline())
        daemon = worker.parent()
    except psutil.NoSuchProcess:
        told.unlink()
        return []
    if daemon is None or daemon.pid not in scene.processes_of(node) or daemon.pid == node.pid:
        return [worker]
    return [worker, daemon]


def noticed(scene: Scene, deaths: int) -> bool:
    counted = [event.detail["deaths"] for event in scene.events("python_worker_died") if event.subject == "scored"]
    return counted == list(range(1, deaths + 1))


def segment(scene: Scene, stream: str) -> Path:
    """The first segment of the epoch that is to be hit."""
    record = scene.epochs(stream)[EPOCH - 1]
    assert record.epoch == EPOCH
    return scene.home.inside(record.output.segments[0].path)


def failures_of(scene: Scene) -> dict[str, Failure]:
    with scene.keeper() as keeper:
        return {failure.subject: failure for failure in keeper.failures()}


def sums_of(rows: list[Row]) -> dict[Row, Row]:
    totals: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for _, _, key, value in rows:
        totals[key][0] += value
        totals[key][1] += 1
    return {(key,): (total, count) for key, (total, count) in totals.items()}
