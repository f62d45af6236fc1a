"""The peers of the fail-over benchmark."""

from __future__ import annotations

from pathlib import Path

from bench._pauses import PEERS, PLAIN
from bench._peers import PIPELINE, account, peer
from bench._place import POLICIES
from bench.peers.rekindle import Rekindle
from bench.peers.spark import Spark


def test_every_policy_is_a_pipeline_with_the_count(tmp_path: Path) -> None:
    for name in PEERS:
        made = peer(name, tmp_path / "run", tmp_path / "in", 2)
        if name == PLAIN:
            assert isinstance(made, Spark) and account(made) == (0, 0)
            continue
        assert isinstance(made, Rekindle) and made.pipeline.policy == name in POLICIES
        assert (made.pipeline.file, made.pipeline.stream) == (PIPELINE, "counts")
        assert made.pipeline.environment["BENCH_POLICY"] == name
        assert made.pipeline.environment["BENCH_OUTPUT"] == str(tmp_path / "run" / "output")


def test_plain_sparks_command_is_the_keyed_count(tmp_path: Path) -> None:
    made = peer(PLAIN, tmp_path / "run", tmp_path / "in", 2)
    assert isinstance(made, Spark)
    command = made._command()
    assert "--workload" not in command and command[command.index("--cores") + 1] == "2"
