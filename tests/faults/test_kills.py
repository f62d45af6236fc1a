"""SIGKILL at every step of an epoch.

Fault model. Survived: the node's process dies at any of the named steps of any fragment or sink, once at each,
again and again in one run; then once more its JVM alone. The machine stays up. Lost: nothing. Output in append
mode is the same rows, output in update mode comes to the same last row of every key, and whatever was on record
or delivered before a death is there afterwards, unchanged.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.keeper.records import Span
from rekindle.sources import Rate
from tests.faults.conftest import Trades
from tests.faults.scene import Row, Scene
from tests.faults.soundness import assert_done, flaws
from tests.sources.collect import Collected

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(300)]

STATEFUL = (
    "kill:before_claim:joined:3",
    "kill:after_claim:joined:4",
    "kill:during_compute:joined:5",
    "kill:before_publish:joined:6",
    "kill:after_publish:joined:7",
    "kill_jvm:during_compute:joined:9",
    "kill:after_publish:spreads:9",
)

STATELESS = (
    "kill:before_claim:ticks:2",
    "kill:after_claim:ticks:3",
    "kill:during_compute:ticks:4",
    "kill:before_publish:ticks:5",
    "kill:after_publish:ticks:6",
    "kill:before_claim:odd:8",
    "kill:after_claim:odd:9",
    "kill:during_compute:odd:10",
    "kill:before_publish:odd:11",
    "kill:after_publish:odd:12",
    "kill:during_compute:stamped:12",
    "kill:before_publish:stamped:13",
    "kill:after_publish:stamped:14",
    "kill:before_delivery:stamped_sink:14",
    "kill:after_delivery:stamped_sink:15",
    "kill:before_publish:notes:2",
    "kill:before_delivery:told:13",
    "kill:after_delivery:told:14",
)


def test_stateful_fragment_killed_at_every_step(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", faults=STATEFUL) as scene:
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        assert_done(run.ends())
        assert flaws(scene) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed
        deaths = [event.detail["noticed"] for event in scene.events("node_died")]
        assert len(deaths) == len(STATEFUL)
        assert Counter(deaths)["killed by signal 9"] == len(STATEFUL) - 1


def test_ingest_stateless_fragments_and_a_sink_killed_at_every_step(tmp_path: Path) -> None:
    with Scene(tmp_path, "stamps", faults=STATELESS, STAMPS_LIMIT="1700") as scene:
        lines, bad_lines = write_notes(tmp_path / "notes")
        values = write_readings(tmp_path / "readings")
        run = scene.start("--until-idle", "2s")
        witness = scene.watched()
        assert_done(run.ends())
        assert flaws(scene, called=("told",)) == []
        assert witness.changed() == []

        expected = ticks(1700)
        assert scene.rows("ticks") == expected
        odd = [row for row in expected if row[3] % 2 == 1]
        assert sorted(scene.rows("odd")) == sorted(odd)

        stamped = scene.delivered("stamped")
        assert Counter((row["seq"], row["key"]) for row in stamped) == Counter((row[1], row[2]) for row in odd)
        assert len({row["id"] for row in stamped}) == len(odd)  # no row was stamped twice
        assert {row["id"] for row in stamped} == {row[2] for row in scene.rows("stamped")}

        told = [json.loads(line) for line in (scene.folder / "told").read_text().splitlines()]
        by_key = {call["key"]: call["seqs"] for call in told}
        assert sorted(seq for seqs in by_key.values() for seq in seqs) == sorted(row[1] for row in odd)
        again = [key for key, calls in Counter(call["key"] for call in told).items() if calls > 1]
        assert again and all(call["seqs"] == by_key[call["key"]] for call in told)  # at least once, the same each time
        assert any(key.endswith("/14") for key in again)

        assert sorted(row["id"] for row in scene.delivered("notes")) == lines
        rejected = scene.delivered("notes_rejected")
        assert Counter(row["row"] for row in rejected) == Counter(bad_lines)
        assert all(row["origin"] and row["reason"] for row in rejected)

        assert sorted(row["id"] for row in scene.delivered("readings")) == values
        (truncated,) = scene.delivered("readings_rejected")
        assert truncated["origin"] == "1-truncated.parquet" and "Parquet" in truncated["reason"]


def ticks(limit: int) -> list[Row]:
    """What the source brings, read without a node."""
    reader = Rate(1000, keys=10, seed=3, start=1_700_000_000.0, limit=limit).open(())
    batch = Collected()
    reader.read(Span(None, reader.newest(None, limit)), batch)
    return [tuple(row.values()) for row in batch.rows()]


def write_notes(folder: Path) -> tuple[list[int], list[str]]:
    """Four files of JSON lines; returns the ids of the good ones, and the bad ones."""
    folder.mkdir()
    good, bad = [], []
    for file in range(4):
        lines = []
        for number in range(20):
            if number % 7 == 3:
                lines.append(f'{{"id": {file}, "text": "cut off')
                bad.append(lines[-1])
            else:
                good.append(file * 100 + number)
                lines.append(f'{{"id": {good[-1]}, "text": "note {number}"}}')
        (folder / f"{file}.json").write_text("\n".join(lines) + "\n")
    return good, bad


def write_readings(folder: Path) -> list[int]:
    """Three Parquet files, one of them cut off; returns the ids in the others."""
    folder.mkdir()
    good = []
    for file, name in enumerate(("0-whole", "1-truncated", "2-whole")):
        ids = [file * 100 + number for number in range(20)]
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"id": ids, "celsius": [float(i) for i in ids]}), path)
        if "truncated" in name:
            path.write_bytes(path.read_bytes()[:-40])
        else:
            good += ids
    return good
