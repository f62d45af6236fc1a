"""Rekindle: PySpark streaming pipelines whose output survives whatever dies.

import rekindle as rk

pipeline = rk.Pipeline("words")
pipeline.source("lines", rk.sources.Files("in", format="json", schema="ts timestamp, line string"))
"""

from rekindle import sinks, sources
from rekindle.errors import RekindleError
from rekindle.pipeline import Pipeline, Settings
from rekindle.recovery import ActiveStandby, Gap, PassiveStandby, Rollback, UpstreamBackup
from rekindle.streams.position import position

__all__ = [
    "ActiveStandby",
    "Gap",
    "PassiveStandby",
    "Pipeline",
    "RekindleError",
    "Rollback",
    "Settings",
    "UpstreamBackup",
    "position",
    "sinks",
    "sources",
]
