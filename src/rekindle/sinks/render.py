"""Rows as bytes: JSON lines, CSV, or an empty Parquet file. The same rows always give the same bytes."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rekindle.errors import SinkError
from rekindle.sinks.base import Delivery

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 8192

Render = Callable[[Any], Any]


def chunks(format: str, delivery: Delivery) -> Iterator[bytes]:
    """The whole epoch, a chunk at a time."""
    if format == "json":
        return _json(delivery)
    return _csv(delivery) if format == "csv" else iter([_no_rows(delivery.schema)])


def _json(delivery: Delivery) -> Iterator[bytes]:
    import orjson

    options = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    names = delivery.schema.names
    renders = [_render_of(field.type, field.name) for field in delivery.schema]
    for batch in delivery.batches():
        for start in range(0, batch.num_rows, ROWS):
            part = batch.slice(start, ROWS)
            columns = [_column(c, r) for c, r in zip(part.columns, renders, strict=True)]
            rows = zip(*columns, strict=True) if columns else ((),) * part.num_rows
            yield b"".join([orjson.dumps(dict(zip(names, row, strict=True)), option=options) for row in rows])


def _column(column: pa.Array, render: Render | None) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if render is not None and pa.types.is_float64(column.type) and pc.all(pc.is_finite(column)).as_py() is not False:
        render = None
    values: list[Any] = column.to_pylist()
    return values if render is None else [None if v is None else render(v) for v in values]


def _render_of(kind: pa.DataType, name: str) -> Render | None:
    """What makes a Python value of this type fit for orjson; None if it is already."""
    import orjson
    import pyarrow as pa

    t = pa.types
    if t.is_floating(kind):
        return _float32 if t.is_float32(kind) else _double
    if t.is_decimal(kind):
        return lambda v: orjson.Fragment(format(v, "f").encode())
    if any(f(kind) for f in (t.is_binary, t.is_large_binary, t.is_fixed_size_binary, t.is_binary_view)):
        return lambda v: base64.b64encode(v).decode()
    if t.is_list(kind) or t.is_large_list(kind):
        item = _render_of(kind.value_type, name)
        return None if item is None else lambda v: [None if i is None else item(i) for i in v]
    if t.is_struct(kind):
        fields = {f.name: r for f in kind if (r := _render_of(f.type, name)) is not None}
        if not fields:
            return None
        return lambda v: {k: fields[k](i) if k in fields and i is not None else i for k, i in v.items()}
    if t.is_map(kind):
        key, value = _render_of(kind.key_type, name), _render_of(kind.item_type, name)
        return lambda v: {
            _key(k if key is None else key(k)): i if value is None or i is None else value(i) for k, i in v
        }
    plain = (t.is_integer, t.is_boolean, t.is_string, t.is_large_string, t.is_string_view, t.is_null)
    if any(f(kind) for f in (*plain, t.is_timestamp, t.is_date, t.is_time)):
        return None
    raise SinkError(
        f"the column {name!r} of type {kind} cannot be rendered as JSON",
        hint="convert it in an operator, or use format='parquet'",
    )


def _double(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _float32(value: float) -> Any:
    """The shortest digits that give the same 32-bit float, as Spark prints it."""
    import numpy as np

    return np.float32(value) if math.isfinite(value) else _double(value)


def _key(value: Any) -> str:
    import orjson

    if isinstance(value, str):
        return value
    text = orjson.dumps(value, option=orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY).decode()
    return text.strip('"')


def _csv(delivery: Delivery) -> Iterator[bytes]:
    import io

    import pyarrow as pa
    import pyarrow.csv as csv

    for field in delivery.schema:
        if pa.types.is_nested(field.type) or "binary" in str(field.type):
            raise SinkError(
                f"the column {field.name!r} of type {field.type} cannot be written as CSV",
                hint="take it apart in an operator, or use format='json' or 'parquet'",
            )
    out = io.BytesIO()
    with csv.CSVWriter(out, delivery.schema) as writer:
        for batch in delivery.batches():
            writer.write_batch(batch.cast(delivery.schema) if batch.schema != delivery.schema else batch)
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()


def _no_rows(schema: pa.Schema) -> bytes:
    import io

    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(schema.empty_table(), out)
    return out.getvalue()
