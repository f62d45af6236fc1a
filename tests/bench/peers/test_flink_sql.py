"""What Flink is told, as text; that it takes it is shown by the peer itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.peers.flink_sql import heap_flags, script, settings
from tests.bench.workloads import AS_IT_IS

SOURCE, OUTPUT = Path("/in"), Path("/out")


def test_rows_that_are_appended_go_straight_to_the_sink() -> None:
    said = script(AS_IT_IS.with_parameters(least=7), SOURCE, OUTPUT, tuned=False, checkpoint=None)
    assert "CREATE TABLE `rows` (`seq` BIGINT, `value` BIGINT) WITH" in said and "'path' = 'file:///in/rows'" in said
    assert "SELECT seq, value FROM `rows` WHERE seq >= 7" in said
    assert "TO_CHANGELOG" not in said and "state-recovery" not in said and "mini-batch" not in said


def test_of_updates_only_the_new_rows_are_put_out() -> None:
    said = script(replace(AS_IT_IS, mode="update"), SOURCE, OUTPUT, tuned=True, checkpoint=Path("/run/chk-7"))
    assert "TO_CHANGELOG(input => TABLE `updates`)\nWHERE op IN ('INSERT', 'UPDATE_AFTER')" in said
    assert "'execution.state-recovery.path' = 'file:///run/chk-7'" in said
    assert "SET 'table.exec.mini-batch.enabled' = 'true';" in said


def test_a_time_column_has_a_watermark() -> None:
    timed = replace(AS_IT_IS, inputs={"rows": "ts timestamp, seq long"}, time_column="ts", watermark_s=2.5)
    said = script(timed, SOURCE, OUTPUT, tuned=False, checkpoint=None)
    assert "`ts` TIMESTAMP_LTZ(3), `seq` BIGINT, WATERMARK FOR `ts` AS `ts` - INTERVAL '2.500' SECOND" in said


def test_a_workload_without_a_query_for_flink_is_refused() -> None:
    with pytest.raises(ValueError, match="as_it_is has no query for Flink"):
        script(replace(AS_IT_IS, flink=None), SOURCE, OUTPUT, tuned=False, checkpoint=None)


def test_only_the_tuned_one_has_short_heartbeats_and_both_stay_on_loopback() -> None:
    plain, tuned = (settings(Path("/run"), {"rpc": 1, "rest": 2}, tuned=tuned) for tuned in (False, True))
    assert "heartbeat.interval" not in plain and tuned["heartbeat.timeout"] == "2 s"
    for said in (plain, tuned):
        assert said["execution.checkpointing.interval"] == "1000 ms"
        assert {value for name, value in said.items() if name.endswith(("host", "address"))} == {"127.0.0.1"}
    assert heap_flags("task1")[0] == "-Xmx1152m"
