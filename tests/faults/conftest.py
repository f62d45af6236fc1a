"""The undisturbed run that all others of the same pipeline are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.faults.scene import Row, Scene
from tests.faults.soundness import assert_done, flaws

KEYS = 2  # of the stream spreads: start, key


@dataclass(frozen=True)
class Trades:
    """What the pipeline ``trades`` comes to."""

    bids: Counter[Row]
    joined: Counter[Row]
    volumes: Counter[Row]
    spreads: Mapping[Row, Row]

    @staticmethod
    def of(scene: Scene) -> Trades:
        return Trades(
            scene.counted("bids"), scene.counted("joined"), scene.counted("volumes"), scene.final("spreads", KEYS)
        )


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Trades:
    with Scene(tmp_path_factory.mktemp("undisturbed"), "trades") as scene:
        assert_done(scene.run())
        assert flaws(scene) == []
        trades = Trades.of(scene)
        assert all((trades.bids, trades.joined, trades.volumes, trades.spreads))
        assert len(scene.epochs("joined")) > 10  # enough of them for faults in between
        return trades
