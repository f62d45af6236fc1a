"""``rekindle read``: the rows of a stream, straight from its segments."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import orjson
import typer

from rekindle.cli.opened import known_stream, opened
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import note, plain_line, print_line
from rekindle.errors import DeclarationError, EpochTrimmed, SegmentDamaged
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.streams.segments import read_batches

ROWS_SHOWN = 20
_EPOCHS_AT_ONCE = 100


def read(
    stream: Annotated[str, typer.Argument(help="The stream's name.")],
    epoch: Annotated[int | None, typer.Option("--epoch", min=1, help="Only this epoch.")] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, help=f"At most so many rows: {ROWS_SHOWN} in a table, else all; 0 is all."),
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the rows of a stream, in their canonical order, from the oldest epoch that is kept.

    With --json one row is one line. Every segment's size and checksum are verified before it is read.
    """
    wanted = (None if as_json else ROWS_SHOWN) if limit is None else (limit or None)
    with opened(home, keeper) as (place, records):
        known_stream(stream, records.streams())
        epochs = _all(records, stream) if epoch is None else iter([_one(records, stream, epoch)])
        rows = _rows(place, records, epochs)
        if as_json:
            for row in islice(rows, wanted):
                sys.stdout.write(orjson.dumps(row, default=_jsonable).decode() + "\n")
        else:
            _print_table(list(islice(rows, wanted)), more=next(rows, None) is not None)


def _all(keeper: Keeper, stream: str) -> Iterator[Epoch]:
    """Every epoch that is there when this starts."""
    head = keeper.head(stream)
    seen = 0
    while seen < head:
        page = keeper.epochs(stream, after=seen, through=head, limit=_EPOCHS_AT_ONCE)
        if not page:
            return
        if seen and page[0].epoch != seen + 1:
            raise _trimmed(stream, seen + 1, f"the oldest epoch that is kept is {page[0].epoch}")
        yield from page
        seen = page[-1].epoch


def _one(keeper: Keeper, stream: str, number: int) -> Epoch:
    found = keeper.epoch(stream, EpochNumber(number))
    if found is not None:
        return found
    head = keeper.head(stream)
    if number > head:
        raise DeclarationError(
            f"epoch {number} of stream {stream!r} is not published",
            hint=f"the newest is {head}" if head else "none is published yet",
        )
    raise EpochTrimmed(
        f"epoch {number} of stream {stream!r} is not kept any more",
        detail=f"kept are the epochs {keeper.oldest(stream)} to {head}",
        hint="retain_s of the stream says how long its epochs are kept",
    )


def _rows(home: Home, keeper: Keeper, epochs: Iterator[Epoch]) -> Iterator[dict[str, Any]]:
    for epoch in epochs:
        try:
            for batch in read_batches(home, [epoch]):
                for start in range(0, batch.num_rows, 1000):
                    yield from batch.slice(start, 1000).to_pylist()
        except SegmentDamaged as damage:
            if keeper.epoch(epoch.stream, epoch.epoch) is not None:
                raise
            raise _trimmed(epoch.stream, epoch.epoch, damage.detail) from damage


def _trimmed(stream: str, epoch: int, detail: str) -> EpochTrimmed:
    return EpochTrimmed(
        f"epoch {epoch} of stream {stream!r} was trimmed while it was read",
        detail=detail,
        hint="read again: it starts with the oldest epoch that is kept then",
    )


def _jsonable(value: Any) -> Any:
    """Bytes become base64, everything else that JSON does not know (decimals, for example) becomes text."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _print_table(rows: list[dict[str, Any]], *, more: bool) -> None:
    if not rows:
        note("no rows")
        return
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    numeric = [all(isinstance(row.get(column), int | float) for row in rows) for column in columns]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)]
    for line in [[plain_line(column) for column in columns], *cells]:
        fitted = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        print_line("  ".join(fitted).rstrip())
    if more:
        sys.stdout.flush()
        note(f"the first {len(rows):,} rows; --limit 0 shows all")


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = value if isinstance(value, str) else _text(value)
    return plain_line(text)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=_jsonable).decode()
    return str(_jsonable(value))
