"""A user's function, called once an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rekindle.errors import DeclarationError
from rekindle.sinks.base import Delivery, Sink, Writer

if TYPE_CHECKING:
    import pyarrow as pa


class Foreach(Sink):
    """``fn(rows, key)`` is called for every epoch, in order, with all of its rows as a ``pyarrow.Table``.

    After a crash the last epoch may come again, with the same key and the same rows in the same order. So
    delivery is at-least-once; it is precise if ``fn`` honours the key, for example by storing it in the
    same transaction as the rows. What ``fn`` raises stops the delivery, and the epoch comes again.
    """

    def __init__(self, fn: Callable[[pa.Table, str], Any]) -> None:
        if not callable(fn):
            raise DeclarationError(f"Foreach takes a function of (rows, key), not {fn!r}")
        self.fn = fn

    def open(self) -> ForeachWriter:
        return ForeachWriter(self.fn)

    @property
    def guarantee(self) -> str:
        return "at-least-once"

    def describe(self) -> str:
        name = getattr(self.fn, "__qualname__", type(self.fn).__name__)
        return f"foreach: {name} (precise if it honours the key)"


class ForeachWriter(Writer):
    def __init__(self, fn: Callable[[pa.Table, str], Any]) -> None:
        self.fn = fn

    def deliver(self, delivery: Delivery) -> None:
        self.fn(delivery.table(), delivery.key)
