"""What plain Spark and Rekindle make of the same files, to be compared row by row.

    python -m bench.nexmark.compare [QUERY ...] [--files N] [--rows N]

runs queries in both, one after the other, and says whether they agree.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench._place import Place, environment
from bench._rounds import rekindle_command, run_to_end
from bench._workload import Scale, Step, Workload, picked, sliced
from bench.nexmark import generator
from bench.nexmark.workload import WORKLOADS

IDLE_S = 3


def small(workload: Workload, rows: int) -> Workload:
    """The same with files of ``rows`` rows of all kinds."""
    only = tuple(workload.inputs)
    return replace(
        workload, make=sliced(partial(generator.rows, only=only), file_rows=rows, rate=lambda values: values["rate"])
    )


def plain(spark: SparkSession, workload: Workload, source: Path, run: Path, *, files_per_batch: int = 2) -> pa.Table:
    """All rows that the streaming query gives out over the files there are."""
    inputs = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(str(source / name))
        for name, schema in workload.inputs.items()
    }
    assert workload.query is not None
    given: list[pa.Table] = []

    def batch(rows: DataFrame, _number: int) -> None:
        given.append(rows.toArrow())

    started = workload.query(inputs, workload.parameters).writeStream.outputMode(workload.mode)
    query = started.foreachBatch(batch).option("checkpointLocation", str(run)).trigger(availableNow=True).start()
    query.awaitTermination()
    return settled(workload, pa.concat_tables(given))


def rekindle(workload: Workload, source: Path, run: Path, *, cores: int = 2, rows_max: int = 20_000) -> pa.Table:
    """All rows that the pipeline delivers, run by its command until nothing comes any more."""
    place = Place(source, run / "output", "rollback", None, rows_max, workload.parameters)
    also = {**environment(place), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run_to_end(workload.name, rekindle_command(workload.pipeline, run, cores, IDLE_S), run, source, also)
    parts = sorted((run / "output").glob("epoch=*/*.parquet"))
    return settled(workload, pa.concat_tables([pq.read_table(part, partitioning=None) for part in parts]))


def settled(workload: Workload, given: pa.Table) -> pa.Table:
    """The rows that count, in order: of those with the same key, in update mode, the newest."""
    table = given.select(workload.names)
    if workload.mode == "update":
        assert workload.cause is not None
        newest = np.argsort(workload.cause(table, workload.parameters), kind="stable")[::-1]
        ordered = table.take(pa.array(newest))
        first = ordered.append_column("_row", pa.array(np.arange(len(ordered))))
        kept = first.group_by(list(workload.key)).aggregate([("_row", "min")])["_row_min"]
        table = ordered.take(kept)
    return table.sort_by([(name, "ascending") for name in workload.names]).combine_chunks()


def difference(workload: Workload, steps: Sequence[Step], one: pa.Table, other: pa.Table) -> str:
    """What sets two outputs apart; '' if nothing. Where rows are not determined each is checked by itself."""
    if workload.check is not None:
        return " / ".join(filter(None, (workload.check(steps, each, workload.parameters) for each in (one, other))))
    mine, others = (sorted(map(str, each.to_pylist())) for each in (one, other))
    if mine == others:
        return ""
    only = [sorted(set(a) - set(b))[:3] for a, b in ((mine, others), (others, mine))]
    return f"{len(mine)} rows, {len(others)} rows; only in the first: {only[0]}; only in the second: {only[1]}"


def main() -> None:
    from rekindle.node.session import start_session

    parser = argparse.ArgumentParser()
    parser.add_argument("query", nargs="*", default=[str(w.parameters["query"]) for w in WORKLOADS])
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--plain", action="store_true", help="plain Spark alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nexmark-") as scratch:
        folder = Path(scratch)
        spark = start_session("compare", cores=2, conf={"spark.log.level": "ERROR"}, scratch=folder)
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
        outputs, made = {}, {}
        for name in options.query:
            workload = small(picked([f"nexmark_{name}"])[0], options.rows).with_parameters(rate=2_000)
            made[name] = workload.make(folder / name / "in", Scale(options.files), workload.parameters)
            outputs[name] = workload, plain(spark, workload, folder / name / "in", folder / name / "checkpoint")
            print(f"{name}: plain Spark gives {outputs[name][1].num_rows} rows", flush=True)
        spark.stop()
        for name, (workload, expected) in outputs.items() if not options.plain else ():
            found = rekindle(workload, folder / name / "in", folder / name / "run")
            wrong = difference(workload, made[name], expected, found)
            print(f"{name}: {wrong or 'Rekindle gives the same'}", flush=True)


if __name__ == "__main__":
    main()
