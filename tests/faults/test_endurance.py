"""A pipeline that never ends keeps what its policies need, and no more: its home stops growing while epochs go on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.scene import Scene

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(400)]

WARM_UP = 40
STRETCH = 60
GROWTH_MAX = 1.25
SLACK_BYTES = 2_000_000  # a log line here and there, and SQLite's own pages


@dataclass(frozen=True)
class Size:
    """What lies in the home, logs left out."""

    epoch: int
    bytes: int
    files: int


def size_of(scene: Scene) -> Size:
    sizes = []
    for folder, _, names in os.walk(scene.root):
        if Path(folder) != scene.home.logs:
            for name in names:
                try:
                    sizes.append(os.stat(os.path.join(folder, name)).st_size)
                except FileNotFoundError:
                    continue  # trimmed just now
    return Size(scene.head("totals"), sum(sizes), len(sizes))


def test_the_home_of_an_endless_run_stops_growing(tmp_path: Path) -> None:
    with Scene(tmp_path, "endless") as scene:
        run = scene.start("--for", "280s")
        seen: list[Size] = []

        def until(epoch: int) -> list[Size]:
            """Sizes on the way to an epoch."""
            first = len(seen)

            def there() -> bool:
                seen.append(size_of(scene))
                return seen[-1].epoch >= epoch

            scene.until(there, f"epoch {epoch}", 120)
            return seen[first:]

        until(WARM_UP)
        before, after = until(WARM_UP + STRETCH), until(WARM_UP + 2 * STRETCH)
        run.process.terminate()
        assert run.ends().code == 0
        with scene.keeper() as keeper:
            assert keeper.oldest("ticks") > WARM_UP and keeper.oldest("totals") > WARM_UP, "it was trimmed"
            first = keeper.first_claim("totals")
            assert first is not None and first.epoch > WARM_UP
            assert len(keeper.safe_points("totals")) <= 3
        for what in ("bytes", "files"):
            peak, later = (max(getattr(size, what) for size in part) for part in (before, after))
            assert later <= peak * GROWTH_MAX + (SLACK_BYTES if what == "bytes" else 0), (
                f"{what}: {peak} grew to {later}"
            )
