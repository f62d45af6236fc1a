"""The bundled pipeline has in it what the table of guarantees and the soak say of it."""

from __future__ import annotations

from rekindle.guarantees import guarantees, sink_guarantees
from rekindle.load import load_pipeline
from rekindle.plan import check
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Rollback, UpstreamBackup
from rekindle.verify.soak import PIPELINE
from rekindle.verify.soak_check import ROWS, WINDOWS


def test_every_policy_is_in_the_pipeline_and_every_stream_is_checked() -> None:
    pipeline = load_pipeline(PIPELINE)
    check(pipeline)
    policies = {type(stream.recovery) for stream in pipeline.streams.values()}
    assert policies == {Rollback, PassiveStandby, ActiveStandby, UpstreamBackup, Gap}
    given = guarantees(pipeline)
    assert set(ROWS) | set(WINDOWS) == set(given)
    assert {stream for stream, guarantee in given.items() if guarantee != "precise"} == {"gapped"}
    assert sink_guarantees(pipeline) == {"files": "precise", "told": "at-least-once"}
