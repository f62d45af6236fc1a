"""Every kind of stateful operation survives the death of its node.

Fault model. Survived: SIGKILL of the node at two steps of two fragments, while each of the others is wherever it is.
Lost: nothing. The output is compared with an undisturbed run, and what depends on the order of rows, or can be told by
plain Python, with that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.faults.scene import Row, Scene
from tests.faults.soundness import assert_done, flaws

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(400)]

STREAMS = ("sessions", "firsts", "alone", "busiest", "numbered", "buckets")
KILLS = ("kill:after_publish:buckets:4", "kill:before_publish:alone:7")
BUCKET_MS = 2000


def outputs(scene: Scene) -> dict[str, Counter[Row]]:
    found = {stream: scene.counted(stream) for stream in STREAMS}
    assert all(found.values()), found.keys()
    return found


def test_every_kind_of_state_survives(tmp_path: Path) -> None:
    with Scene(tmp_path / "undisturbed", "operations") as scene:
        assert_done(scene.run())
        assert flaws(scene) == []
        undisturbed = outputs(scene)
        ticks = scene.rows("ticks")
        names = dict(zip(("ts", "seq", "key", "value"), zip(*ticks, strict=True), strict=True))
    with Scene(tmp_path / "killed", "operations", faults=KILLS) as scene:
        assert_done(scene.run())
        assert flaws(scene) == []
        assert len(scene.events("node_died")) == len(KILLS)
        assert {e.subject for e in scene.events("fragment_joined") if e.detail["restored"]} == set(STREAMS)
        assert outputs(scene) == undisturbed
    assert undisturbed["numbered"] == numbered(names["seq"], names["key"])
    newest_ms = max(at.timestamp() for at in names["ts"]) * 1000
    closed = {row: n for row, n in buckets(names["ts"], names["key"]).items() if row[1] <= newest_ms}
    assert {(key, ends_ms): n for key, ends_ms, n in undisturbed["buckets"]} == closed


def numbered(seqs: tuple[int, ...], keys: tuple[int, ...]) -> Counter[Row]:
    """The rows of each key, numbered in the order of the source."""
    count: Counter[int] = Counter()
    found: Counter[Row] = Counter()
    for seq, key in zip(seqs, keys, strict=True):
        count[key] += 1
        found[(seq, key, count[key])] += 1
    return found


def buckets(times: tuple[object, ...], keys: tuple[int, ...]) -> dict[Row, int]:
    found: defaultdict[Row, int] = defaultdict(int)
    for at, key in zip(times, keys, strict=True):
        at_ms = int(at.timestamp() * 1000)  # type: ignore[attr-defined]
        found[(key, (at_ms // BUCKET_MS + 1) * BUCKET_MS)] += 1
    return dict(found)
