"""What is read from a checkpoint's files, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

from rekindle.keeper.records import EpochNumber
from rekindle.state import checkpoint


def log(path: Path, *timestamps_ms: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [json.dumps({"path": "p", "timestamp": at, "batchId": 0}) for at in timestamps_ms]
    path.write_text("\n".join(["v1", *entries]))


def test_the_newest_file_that_the_sources_saw(tmp_path: Path) -> None:
    checkpoint.create(tmp_path / "c", EpochNumber(0))
    assert checkpoint.newest_shown_s(tmp_path / "c") == 0
    for source, latest in (("0", 5500), ("1", 4000)):
        log(tmp_path / "c" / "sources" / source / "9.compact", 1000, 3000)
        log(tmp_path / "c" / "sources" / source / "10", latest, latest - 500)
        (tmp_path / "c" / "sources" / source / ".11.crc").write_bytes(b"\xff")
    assert checkpoint.newest_shown_s(tmp_path / "c") == 5.5


def test_the_watermark_of_a_batch_is_in_its_offsets(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text(
        'v1\n{"batchWatermarkMs":12,"batchTimestampMs":99,"conf":{}}\n{"logOffset":4}'
    )
    assert checkpoint.watermark_us(tmp_path, 4) == 12_000
