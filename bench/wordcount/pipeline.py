"""Windowed word count as a Rekindle pipeline."""

from __future__ import annotations

from pyspark.sql import DataFrame

import rekindle as rk
from bench._place import here
from bench.wordcount.counting import counted
from bench.wordcount.workload import LINES, PARAMETERS

place = here(PARAMETERS)

pipeline = rk.Pipeline("wordcount", settings=place.settings, recovery=place.recovery)
pipeline.source("lines", place.files("lines", LINES), rows_max=place.rows_max)


@pipeline.stream(output_mode="update", rows_max=place.rows_max, state=place.state)
def counts(lines: DataFrame) -> DataFrame:
    return counted(lines, place.parameters["window_s"])


pipeline.sink("counts", place.sink())
