"""Each Nexmark query as a Rekindle pipeline; the parameter ``query`` says which."""

from __future__ import annotations

from functools import partial

import rekindle as rk
from bench._place import here
from bench.nexmark import queries
from bench.nexmark.workload import WORKLOADS

place = here({"query": "q5"})
name = place.parameters["query"]
workload = next(workload for workload in WORKLOADS if workload.stream == name)
parameters = {**workload.parameters, **place.parameters}

pipeline = rk.Pipeline(f"nexmark_{name}", settings=place.settings, recovery=place.recovery)
for source, schema in workload.inputs.items():
    pipeline.source(source, place.files(source, schema), rows_max=place.rows_max)

if name == "q12":  # the clock is read in a stream of its own, which is logged before anything is counted by it
    pipeline.stream(name="clocked", rows_max=place.rows_max)(partial(queries.clocked, parameters=parameters))

operator = partial(getattr(queries, name), parameters=parameters)
pipeline.stream(name=name, output_mode=workload.mode, rows_max=place.rows_max, state=place.state)(operator)
pipeline.sink(name, place.sink())
