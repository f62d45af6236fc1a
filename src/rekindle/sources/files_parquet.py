"""How Parquet files become rows: copied byte for byte if they fit the stream, rewritten if they can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import SourceError
from rekindle.sources.base import Batch

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def schema_of(spark: SparkSession, file: Path) -> StructType:
    """Spark's own view of a Parquet file's schema."""
    from pyspark.errors import PySparkException

    try:
        return spark.read.option("__globPaths__", "false").parquet(str(file)).schema
    except PySparkException as error:
        raise SourceError(
            "the schema of a Parquet file cannot be taken", detail=f"{file}: {error}", hint='declare schema="..."'
        ) from error


def has_footer(path: Path) -> bool:
    """Whether the file is there and has a Parquet footer that can be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return False
    return True


def rows_in(path: Path) -> int:
    """The row count in the footer; 1 if there is none, since the file is one thing to reject."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return 1


def bring(files: Sequence[tuple[str, Path, int]], schema: StructType, batch: Batch) -> None:
    """Add each file's rows, or reject the file.

    Every page is decoded before a file is taken, so that a damaged one cannot become part of a stream.
    Columns may be in another order, there may be more of them, and their types may be cast where no value
    changes; a missing column, or a value that does not fit, rejects the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rekindle.streams.arrow import arrow_schema

    wanted = arrow_schema(schema)
    for name, path, _ in files:
        try:
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                same = _same(file, wanted)
                reason = "" if same else _misfit(file, wanted)
                if not reason:
                    for _table in _tables(file, None if same else wanted):
                        pass
        except (pa.ArrowException, OSError) as error:
            # ArrowException also covers a cast that would change a value.
            reason = f"cannot be read as the stream's Parquet: {_line(error)}"
        if reason:
            batch.reject(origin=name, reason=reason)
        elif same:
            batch.add_parquet(path)
        else:
            with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                for table in _tables(file, wanted):
                    batch.add_table(table)


def _tables(file: pq.ParquetFile, wanted: pa.Schema | None) -> Iterator[pa.Table]:
    for index in range(file.num_row_groups):
        table = file.read_row_group(index, columns=None if wanted is None else wanted.names)
        yield table if wanted is None else _cast(table, wanted, file)


def _cast(table: pa.Table, wanted: pa.Schema, file: pq.ParquetFile) -> pa.Table:
    import pyarrow as pa

    columns = []
    for field in wanted:
        column = table.column(field.name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        columns.append(column.cast(field.type))
    return pa.table(columns, schema=wanted)


def _same(file: pq.ParquetFile, wanted: pa.Schema) -> bool:
    """Whether Spark sees exactly the stream's schema in the file. INT96 and dictionaries are Arrow's view only."""
    found = file.schema_arrow
    return [(f.name, f.type) for f in found] == [(f.name, f.type) for f in wanted] and not _int96(file)


def _int96(file: pq.ParquetFile) -> set[str]:
    columns = (file.schema.column(i) for i in range(len(file.schema)))
    return {c.path.split(".")[0] for c in columns if c.physical_type == "INT96"}


def _misfit(file: pq.ParquetFile, wanted: pa.Schema) -> str:
    """Why a file cannot become rows of the stream, judged by its schema; empty if it can."""
    found = file.schema_arrow
    int96 = _int96(file)
    for field in wanted:
        indices = found.get_all_field_indices(field.name)
        if not indices:
            return f"the column {field.name!r} is missing"
        if len(indices) > 1:
            return f"the column {field.name!r} is there {len(indices)} times"
        kind = found.field(indices[0]).type
        if not _castable(kind, field.type, instant=field.name in int96):
            return f"the column {field.name!r} is {kind}, the stream has {field.type}"
    return ""


def _castable(found: pa.DataType, wanted: pa.DataType, *, instant: bool) -> bool:
    """Whether values of one type can mean the same in the other. Single values are checked by the cast."""
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(found):
        found = found.value_type
    if found == wanted or t.is_null(found):
        return True
    if t.is_timestamp(found) and t.is_timestamp(wanted):
        return instant or (found.tz is None) == (wanted.tz is None)
    if t.is_nested(found) or t.is_nested(wanted):
        return _same_nesting(found, wanted)
    text = (t.is_string, t.is_large_string, t.is_string_view)
    raw = (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view)
    families = (
        ((t.is_integer,), (t.is_integer, t.is_floating, t.is_decimal)),
        ((t.is_floating,), (t.is_float64, t.is_float32)),
        ((t.is_decimal,), (t.is_decimal,)),
        (text, text),
        (raw, raw),
        ((t.is_date,), (t.is_date,)),
    )
    return any(any(f(found) for f in of) and any(f(wanted) for f in to) for of, to in families) and not (
        t.is_float64(found) and t.is_float32(wanted)
    )


def _same_nesting(found: pa.DataType, wanted: pa.DataType) -> bool:
    import pyarrow as pa

    t = pa.types
    lists = (t.is_list, t.is_large_list)
    if any(f(found) for f in lists) and any(f(wanted) for f in lists):
        return _castable(found.value_type, wanted.value_type, instant=False)
    if t.is_map(found) and t.is_map(wanted):
        return _castable(found.key_type, wanted.key_type, instant=False) and _castable(
            found.item_type, wanted.item_type, instant=False
        )
    if t.is_struct(found) and t.is_struct(wanted):
        return [f.name for f in found] == [f.name for f in wanted] and all(
            _castable(f.type, w.type, instant=False) for f, w in zip(found, wanted, strict=True)
        )
    return False


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
