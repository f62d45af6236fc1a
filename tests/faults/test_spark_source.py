"""A source that Spark reads: its own checkpoint says what was read, and the claim on record must agree.

Fault model. Survived: SIGKILL of the node at each step of an epoch, and of its JVM alone. Lost: nothing, and nothing
comes twice: the same rows in the same epochs as where nothing died, and what was on record stays as it was. Not
survived: the loss of the source's checkpoint, which is refused (tests/node/test_workers.py).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from rekindle.keeper.records import EpochNumber, Member
from rekindle.state import checkpoint
from tests.faults.scene import Row, Scene
from tests.faults.soundness import assert_done, flaws
from tests.faults.test_steps import stop_at_each

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(250)]

FILES, ROWS = 8, 50
AT = 3
STEPS = ("before_claim", "after_claim", "during_compute", "before_publish", "after_publish")
STOPS = tuple(f"stop:{step}:letters:{AT}" for step in STEPS)
KILLS = (
    *(f"kill:{step}:letters:{number}" for number, step in enumerate(STEPS, 2)),
    "kill_jvm:during_compute:letters:7",
)


def test_a_spark_source_killed_at_every_step(tmp_path: Path) -> None:
    with Scene(tmp_path / "undisturbed", "letters", faults=STOPS) as scene:
        written = write_letters(scene.folder / "letters")
        run = scene.start("--until-idle", "2s")
        scene.until(lambda: scene.marks(), "the first step is reached")
        stop_at_each(scene, live(scene), lambda step: assert_committed(scene, step))
        assert_done(run.ends())
        assert flaws(scene) == []
        undisturbed = epochs(scene)
        assert [row for rows in undisturbed for row in sorted(rows)] == written

    with Scene(tmp_path / "killed", "letters", faults=KILLS) as scene:
        write_letters(scene.folder / "letters")
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        assert_done(run.ends())
        assert flaws(scene) == []
        assert witness.changed() == []
        assert epochs(scene) == undisturbed
        delivered = [(row["id"], row["text"]) for row in scene.delivered("letters")]
        assert sorted(delivered) == sorted(written)
        deaths = Counter(event.detail["noticed"] for event in scene.events("node_died"))
        assert deaths == {"killed by signal 9": len(STEPS), "exited with code 1": 1}


def write_letters(folder: Path) -> list[Row]:
    """Files in the order in which Spark takes them; returns their rows."""
    folder.mkdir()
    written: list[Row] = []
    for number in range(FILES):
        rows = [(number * ROWS + row, f"letter {row}") for row in range(ROWS)]
        path = folder / f"{number}.json"
        path.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in rows))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        written += rows
    return written


def live(scene: Scene) -> Member:
    member = scene.member()
    assert member is not None
    return member


def epochs(scene: Scene) -> list[Counter[Row]]:
    """The rows of each epoch."""
    rows = iter(scene.rows("letters"))
    return [Counter(next(rows) for _ in range(epoch.output.rows)) for epoch in scene.epochs("letters")]


def assert_committed(scene: Scene, step: str) -> None:
    """Spark has planned the epoch's batch at each step, and committed the one before it, but never the epoch itself."""
    folder = scene.home.work / "letters" / "source"
    planned, committed = (checkpoint.numbered(folder / log) for log in ("offsets", "commits"))
    assert (planned[-1], committed[-1]) == (EpochNumber(AT - 1), EpochNumber(AT - 2)), step
