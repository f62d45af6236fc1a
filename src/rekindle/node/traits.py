"""What an operator is, read from the plan that it builds: does it keep state, is it deterministic.

The operator is called once with empty streaming DataFrames of its inputs' schemas; the analysed plan is
walked in the JVM. Nothing runs.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType, StructType, TimestampType

from rekindle.errors import DeclarationError
from rekindle.node.memory import memory_of
from rekindle.node.plans import WATERMARK, input_of, nodes, sequence, state_of
from rekindle.pipeline import Pipeline, StreamDeclaration
from rekindle.plan import Fragment, Traits, fuse, order
from rekindle.recovery.memory import Memory

READS_CLOCK = {
    "CurrentTimestamp": "current_timestamp",
    "CurrentTimestampLike": "current_timestamp",
    "CurrentBatchTimestamp": "current_timestamp",
    "Now": "now",
    "CurrentDate": "current_date",
    "CurrentTime": "current_time",
    "LocalTimestamp": "localtimestamp",
    "UnixTimestampNow": "unix_timestamp",
}
ORDER_SENSITIVE = {"First": "first", "Last": "last", "CollectList": "collect_list", "ListAgg": "listagg"}
ORDER_FREE = frozenset({"SortArray", "ArraySort", "Size"})  # around a collect_list they hide its order
OUTSIDE = frozenset({"LogicalRelation", "HiveTableRelation", "DataSourceV2Relation", "DataSourceV2ScanRelation"})
"""Leaves of a plan whose rows are asked for anew each time, unlike those that the plan itself holds."""
METADATA_FIELD = re.compile(r"_metadata#\d+\.(\w+)")
POSITION_FIELDS = frozenset({"file_name", "row_index"})
METADATA = "_metadata"  # Spark adds this column to the relation of a file source when something refers to it


def analyse(pipeline: Pipeline, spark: SparkSession, schemas: Mapping[str, StructType], empty: Path) -> Analysis:
    """Call every operator once, inputs first. ``schemas`` are those of the sources and their dead letters.

    ``empty`` is a folder that holds nothing. Raises DeclarationError for an operator that does not build.
    """
    logging.getLogger("DataFrameQueryContextLogger").disabled = True  # it repeats on stderr what we report
    known = dict(schemas)
    traits: dict[str, Traits] = {}
    watermarks: dict[str, dict[str, int]] = {}
    for name in order(pipeline):
        stream = pipeline.streams[name]
        inputs = _inputs(spark, stream.inputs, known, watermarks, empty)
        frame = _build(stream, inputs)
        known[name] = as_nullable(frame.schema)
        _check_columns(stream, known[name])
        traits[name] = _traits(stream, frame, spark)
        if not traits[name].stateful:
            watermarks[name] = _watermarks(frame.schema)
    fragments = fuse(pipeline, traits)
    memories: dict[str, Memory] = {}
    for fragment in fragments:
        if fragment.recovery.needs_bounded_memory:
            inputs = _inputs(spark, fragment.inputs, known, watermarks, empty)
            memories[fragment.name] = memory_of(fragment, run_operators(fragment, inputs), known)
    return Analysis(known, traits, watermarks, fragments, memories)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The schema of every stream, the traits of every operator, the fragments.

    ``watermarks`` are those that a stateless stream hands on to its readers, whether they are fused with it or
    not: column and delay in milliseconds. A stateful stream hands none on: how late its rows are is not known.
    ``memories`` say how far back the state of a fragment reaches, where its recovery depends on that.
    """

    schemas: Mapping[str, StructType]
    traits: Mapping[str, Traits]
    watermarks: Mapping[str, Mapping[str, int]]
    fragments: tuple[Fragment, ...]
    memories: Mapping[str, Memory]


def run_operators(fragment: Fragment, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The fragment's output frame, from the frames of its inputs."""
    frames = dict(inputs)
    for operator in fragment.operators:
        frames[operator.name] = operator.operator(**{i: frames[i] for i in operator.inputs})
    return frames[fragment.name]


def streaming_frame(spark: SparkSession, schema: StructType, folder: Path) -> DataFrame:
    """A streaming DataFrame over a folder (or a glob) of Parquet files."""
    return spark.readStream.schema(schema).option("maxFileAge", "1h").parquet(str(folder))


def _inputs(
    spark: SparkSession,
    names: Sequence[str],
    schemas: Mapping[str, StructType],
    watermarks: Mapping[str, Mapping[str, int]],
    empty: Path,
) -> dict[str, DataFrame]:
    return {
        name: watermarked(streaming_frame(spark, schemas[name], empty / "*" / name), watermarks.get(name, {}))
        for name in names
    }


def watermarked(frame: DataFrame, watermarks: Mapping[str, int]) -> DataFrame:
    """The frame with the watermarks that its stream hands on."""
    for column, delay_ms in watermarks.items():
        frame = frame.withWatermark(column, f"{delay_ms} milliseconds")
    return frame


def _watermarks(schema: StructType) -> dict[str, int]:
    return {
        f.name: int(f.metadata[WATERMARK])
        for f in schema.fields
        if WATERMARK in f.metadata and isinstance(f.dataType, TimestampType)
    }


def as_nullable(schema: StructType) -> StructType:
    """The schema as it comes back from Parquet files: everything may be null, no metadata."""

    def relax(value: Any) -> Any:
        if isinstance(value, dict):
            loose = {k: relax(v) for k, v in value.items()}
            for key in ("nullable", "containsNull", "valueContainsNull"):
                if key in loose:
                    loose[key] = True
            if "metadata" in loose:
                loose["metadata"] = {}
            return loose
        return [relax(v) for v in value] if isinstance(value, list) else value

    relaxed: StructType = StructType.fromJson(relax(schema.jsonValue()))
    return relaxed


def _build(stream: StreamDeclaration, inputs: Mapping[str, DataFrame]) -> DataFrame:
    try:
        frame = stream.operator(**inputs)
    except Exception as error:
        raise DeclarationError(
            f"the operator of stream {stream.name!r} does not build: {_first_line(error)}",
            detail=f"{stream.place}\n{_own_frames(error, stream.place.file)}",
            hint=_hint(error, inputs),
        ) from error
    if not isinstance(frame, DataFrame):
        raise DeclarationError(
            f"the operator of stream {stream.name!r} returned {type(frame).__name__}, not a DataFrame",
            detail=str(stream.place),
            hint="return the DataFrame that the stream consists of",
        )
    if not frame.isStreaming:
        raise DeclarationError(
            f"stream {stream.name!r} does not depend on any of its inputs",
            detail=str(stream.place),
            hint="build the returned DataFrame from the function's parameters",
        )
    return frame


def _traits(stream: StreamDeclaration, frame: DataFrame, spark: SparkSession) -> Traits:
    plan = frame._jdf.queryExecution().analyzed()
    stateful: dict[str, None] = {}
    nondeterministic: dict[str, None] = {}
    positions: set[str] = set()
    watermark = False
    for node in nodes(plan):
        kind = node.getClass().getSimpleName()
        state = state_of(node)
        if state is not None:
            stateful[state] = None
        watermark = watermark or kind == "EventTimeWatermark"
        if kind == "TransformWithStateInPySpark" and node.timeMode().toString().startswith("ProcessingTime"):
            nondeterministic["processing time"] = None
        if kind == "FlatMapGroupsInPandasWithState" and "ProcessingTime" in node.timeout().toString():
            nondeterministic["a processing-time timeout"] = None
        if kind in OUTSIDE and not node.isStreaming():
            nondeterministic["a static table that is read from outside, and may change"] = None
        if kind == "Sample":
            nondeterministic["sample"] = None
        for reason in _nondeterminism(node):
            nondeterministic[reason] = None
        if kind == "StreamingRelation" and METADATA in [a.name() for a in sequence(node.output())]:
            positions.add(input_of(node))
    _check_supported(stream, plan, spark)
    _check_metadata(stream, plan)
    return Traits(tuple(stateful), tuple(nondeterministic), frozenset(positions & set(stream.inputs)), watermark)


def _check_supported(stream: StreamDeclaration, plan: Any, spark: SparkSession) -> None:
    """Spark's own rules for streaming queries, asked early."""
    jvm: Any = spark._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, stream.output_mode.capitalize())()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
    except PySparkException as error:
        raise DeclarationError(
            f"Structured Streaming cannot run stream {stream.name!r} in {stream.output_mode} mode",
            detail=f"{stream.place}: {_first_line(error)}",
            hint="Spark's own rule: change the operation, its watermark, or output_mode=...",
        ) from error


def _check_metadata(stream: StreamDeclaration, plan: Any) -> None:
    """Of a file's metadata only what makes up ``rk.position()`` is the same in every replay."""
    used = set(METADATA_FIELD.findall(plan.toString())) - POSITION_FIELDS
    if used:
        raise DeclarationError(
            f"stream {stream.name!r} reads _metadata.{min(used)}, which is not the same in every replay",
            detail=str(stream.place),
            hint="rk.position() is what may be read of where a row came from",
        )


def _check_columns(stream: StreamDeclaration, schema: StructType) -> None:
    void = [f.name for f in schema.fields if isinstance(f.dataType, NullType)]
    if void:
        raise DeclarationError(
            f"column {void[0]!r} of stream {stream.name!r} has no type",
            detail=str(stream.place),
            hint="give the null a type: F.lit(None).cast('string')",
        )
    names = [f.name.lower() for f in schema.fields]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise DeclarationError(
            f"stream {stream.name!r} has two columns named {twice[0]!r}",
            detail=str(stream.place),
            hint="rename or drop one: its rows are written to Parquet, where names must differ",
        )
    if not names:
        raise DeclarationError(f"stream {stream.name!r} has no columns", detail=str(stream.place))


def _nondeterminism(node: Any) -> Iterator[str]:
    for expression in sequence(node.expressions()):
        yield from _expression_nondeterminism(expression)


def _expression_nondeterminism(expression: Any) -> Iterator[str]:
    kind = expression.getClass().getSimpleName()
    if kind in READS_CLOCK:
        yield f"{READS_CLOCK[kind]}()"
        return
    children = sequence(expression.children())
    if kind in ORDER_SENSITIVE and not (kind == "ListAgg" and not expression.orderExpressions().isEmpty()):
        yield f"{ORDER_SENSITIVE[kind]}() depends on the order of rows"
    if kind in ORDER_FREE:
        aggregates = [c for c in children if c.getClass().getSimpleName() == "AggregateExpression"]
        inner = [c for a in aggregates for c in sequence(a.children())]
        if [c.getClass().getSimpleName() for c in inner] == ["CollectList"]:
            children = [c for c in children if c not in aggregates] + sequence(inner[0].children())
    if not expression.deterministic() and all(child.deterministic() for child in children):
        name = expression.prettyName() if kind != "PythonUDF" else f"the UDF {expression.name()}"
        yield f"{name}()" if kind != "PythonUDF" else name
    for child in children:
        yield from _expression_nondeterminism(child)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__


def _own_frames(error: BaseException, file: str) -> str:
    """The part of the traceback that is in the user's own file, or all of it if none is."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == file] or frames
    return "".join(traceback.format_list(own)).rstrip()


def _hint(error: BaseException, inputs: Mapping[str, DataFrame]) -> str:
    if "`_metadata`" in str(error):
        return "take rk.position() directly of the input, with withColumn, before any join or projection"
    columns = "; ".join(f"{name}({', '.join(frame.columns)})" for name, frame in inputs.items())
    return f"its inputs are {columns}"
