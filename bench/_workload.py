"""What a workload declares, once, for all peers and measures of ``./run bench``.

A workload lives in a folder ``bench/NAME/`` whose module ``workload.py`` has a tuple ``WORKLOADS``; that is all it
takes to be found. Its Rekindle pipeline is a file of its own, which gets its folders from ``bench._place``. The suite
makes the input once, in a staging folder, and lets its files arrive in every peer's run in the same order: all at
once to measure throughput, or step by step at the pace that the steps name.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE = Path(__file__).resolve().parent
Numbers = npt.NDArray[np.int64]
Parameters = Mapping[str, Any]
FLINK_TYPES = {"long": "BIGINT", "int": "INT", "double": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN",
               "timestamp": "TIMESTAMP_LTZ(6)"}  # fmt: skip


class WorkloadError(Exception):
    """What is wrong with a workload, or with how it was asked for."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much input. ``files`` big files, or, with a ``pace_s``, one step every ``pace_s`` seconds."""

    files: int
    pace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Files that arrive together, ``due_s`` seconds after the first step where input comes at a pace.

    ``files`` are by input, ``rows`` how many rows they have, ``through`` is the highest number of an input row that
    has arrived with this step (see ``Workload.cause``).
    """

    files: Mapping[str, Path]
    rows: int
    through: int
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """One query, its input and what is known of its output.

    ``name``        as picked on the command line
    ``about``       one line for people
    ``inputs``      schema of each input, as DDL, in types that FLINK_TYPES knows
    ``make``        writes the input into a folder, and returns its steps in order. Pure: the same parameters and scale
                    are the same files. Later steps have later modification times
    ``pipeline``    the Rekindle pipeline file
    ``stream``      the stream in it whose sink is ``place.sink()``
    ``query``       the plain Spark query, from streams by input name to the one output
    ``columns``     the output's schema, as DDL. Only these columns are judged; the sink may have more
    ``key``         the columns that name an output row: no two rows that should be there have the same
    ``mode``        'append', or 'update': then of the rows with the same key the one with the highest ``cause`` counts
    ``expected``    what the output must come to, from the steps; None: the same as plain Spark, undisturbed
    ``check``       instead of ``expected``, where the rows themselves are not determined (processing time): what is
                    wrong with the output, '' if nothing
    ``cause``       for each output row the number of the input row that brought it about: the last one that changed
                    it, or the one whose event time let its window close. Latency is from the arrival of that row's
                    step to the moment when the output row is visible. None: no latency
    ``flink``       for Flink, the SELECT over tables named like the inputs that gives ``columns``; {parameter} is
                    filled in. A ``time_column`` gets a watermark there
    ``parameters``  what can be set from the command line (``--set NAME.PARAMETER=VALUE``), with defaults of the right
                    type. Pipelines get them from ``place.parameters``
    """

    name: str
    about: str
    inputs: Mapping[str, str]
    make: Callable[[Path, Scale, Parameters], list[Step]]
    pipeline: Path
    stream: str
    query: Callable[[Mapping[str, DataFrame], Parameters], DataFrame] | None
    columns: str
    key: Sequence[str]
    mode: Literal["append", "update"] = "append"
    expected: Callable[[Sequence[Step], Parameters], pa.Table] | None = None
    check: Callable[[Sequence[Step], pa.Table, Parameters], str] | None = None
    cause: Callable[[pa.Table, Parameters], Numbers] | None = None
    flink: str | None = None
    time_column: str | None = None
    watermark_s: float = 0.0
    parameters: Parameters = field(default_factory=lambda: MappingProxyType({}))

    def with_parameters(self, **given: Any) -> Workload:
        """The same with other parameters. Raises WorkloadError for an unknown name or a value of the wrong type."""
        values = dict(self.parameters)
        for name, value in given.items():
            if name not in values:
                raise WorkloadError(f"{self.name} has no parameter {name!r}{_near(name, values)}")
            try:
                values[name] = type(values[name])(value)
            except (TypeError, ValueError):
                raise WorkloadError(
                    f"{self.name}.{name} must be {type(values[name]).__name__}, not {value!r}"
                ) from None
        return replace(self, parameters=MappingProxyType(values))

    @property
    def names(self) -> list[str]:
        """The output's columns."""
        return list(fields(self.columns))


def fields(schema: str) -> dict[str, str]:
    """The columns of a flat DDL schema with their types.

    >>> fields("word string, n long")
    {'word': 'string', 'n': 'long'}
    """
    return {name: kind.strip() for name, kind in (column.split(maxsplit=1) for column in schema.split(", "))}


def sliced(
    rows: Callable[[int, int, Parameters], Mapping[str, pa.Table]], *, file_rows: int, rate: Callable[[Parameters], int]
) -> Callable[[Path, Scale, Parameters], list[Step]]:
    """``Workload.make`` for input that is a function of row numbers: ``rows(first, count, parameters)`` gives the
    tables by input of the rows that are numbered from ``first`` on. ``file_rows`` are in a big file, ``rate`` come in a
    second where there is a pace."""

    def make(folder: Path, scale: Scale, parameters: Parameters) -> list[Step]:
        count = file_rows if scale.pace_s is None else max(1, round(rate(parameters) * scale.pace_s))
        steps = []
        for index in range(scale.files):
            tables = rows(index * count, count, parameters)
            due_s = index * scale.pace_s if scale.pace_s is not None else 0.0
            steps.append(written(folder, index, tables, through=(index + 1) * count - 1, due_s=due_s))
        return steps

    return make


def written(folder: Path, index: int, tables: Mapping[str, pa.Table], *, through: int, due_s: float = 0.0) -> Step:
    """One step, from its tables: ``folder/INPUT/NNNNNN.parquet``."""
    files = {}
    for name, table in tables.items():
        if table.num_rows:
            path = folder / name / f"{index:06d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
            files[name] = path
    return Step(files, sum(table.num_rows for table in tables.values()), through, due_s)


def all_workloads() -> dict[str, Workload]:
    """Every workload there is, by name: those of each ``bench/*/workload.py``."""
    found: dict[str, Workload] = {}
    for path in sorted(HERE.glob("*/workload.py")):
        module = importlib.import_module(f"bench.{path.parent.name}.workload")
        for workload in module.WORKLOADS:
            if workload.name in found:
                raise WorkloadError(f"two workloads are called {workload.name!r}; the second is in {path}")
            found[workload.name] = workload
    return found


def picked(names: Sequence[str]) -> list[Workload]:
    """The workloads with these names. Raises WorkloadError for one that is not there."""
    known = all_workloads()
    for name in names:
        if name not in known:
            raise WorkloadError(
                f"there is no workload {name!r}{_near(name, known)}", f"there are: {', '.join(sorted(known))}"
            )
    return [known[name] for name in names]


def _near(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
