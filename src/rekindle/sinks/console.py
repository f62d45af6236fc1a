"""An epoch as a small table of text."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from rekindle.errors import DeclarationError
from rekindle.sinks.base import Delivery, Sink, Writer

if TYPE_CHECKING:
    import pyarrow as pa


class Console(Sink):
    """Print the first ``rows`` rows of every epoch, to standard output unless ``file`` is given: that of the node,
    which is its log."""

    def __init__(self, rows: int = 20, *, file: IO[str] | None = None) -> None:
        if not isinstance(rows, int) or rows < 0:
            raise DeclarationError(f"rows must be a whole number, not {rows!r}")
        self.rows = rows
        self.file = file

    def open(self) -> ConsoleWriter:
        return ConsoleWriter(self.rows, self.file)

    @property
    def guarantee(self) -> str:
        return "at-least-once"

    def describe(self) -> str:
        where = "to a file of its own" if self.file is not None else "into the log of its node (rekindle logs NODE)"
        return f"console: the first {self.rows} rows of each epoch, {where}"


class ConsoleWriter(Writer):
    def __init__(self, rows: int, file: IO[str] | None) -> None:
        self.rows = rows
        self.file = file

    def deliver(self, delivery: Delivery) -> None:
        from rich.console import Console as Terminal
        from rich.table import Table
        from rich.text import Text

        shown = _first(delivery, self.rows)
        count = f"{delivery.rows} {'row' if delivery.rows == 1 else 'rows'}"
        table = Table()
        for name in delivery.schema.names:
            table.add_column(Text(name), overflow="fold")
        for row in shown:
            # Text, not str: a value such as "[red]" is data, not markup.
            table.add_row(*[Text("" if value is None else str(value)) for value in row])
        terminal = Terminal(file=self.file)
        terminal.print(Text(f"{delivery.stream} · epoch {delivery.epoch} · {count}", style="bold"))
        if shown:
            terminal.print(table)
            if delivery.rows > len(shown):
                terminal.print(Text(f"and {delivery.rows - len(shown)} more"))


def _first(delivery: Delivery, rows: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for batch in delivery.batches():
        if len(found) >= rows:
            break
        part: pa.RecordBatch = batch.slice(0, rows - len(found))
        found += zip(*[column.to_pylist() for column in part.columns], strict=True)
    return found
