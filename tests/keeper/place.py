"""A place where keepers can be opened: the same home, again and again, on SQLite or PostgreSQL."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rekindle.home import Home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Output, Segment, Span, StreamRecord

_numbers = itertools.count(1)


class Place:
    def __init__(self, folder: Path, url: str | None) -> None:
        number = next(_numbers)
        self.url = url
        self.home = Home(folder, f"p{number}", f"home{number}", "sqlite" if url is None else "postgresql")
        self._opened: list[Keeper] = []

    def open(self, *, patience_s: float = 20.0, clock: Callable[[], float] = time.time) -> Keeper:
        keeper = open_keeper(self.url, home=self.home, patience_s=patience_s, clock=clock)
        self._opened.append(keeper)
        return keeper

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


def damage(keeper: Keeper, statement: str) -> None:
    """Change a record behind the keeper's back. ``{}`` in the statement stands for the place of the tables."""
    schema = getattr(keeper._watch, "_channel", None)
    where = "" if schema is None else f"{schema}."
    keeper._store.write(lambda tx: tx.exec_driver_sql(statement.replace("{}", where)))


def stream(name: str, fragment: str | None = None, *inputs: str) -> StreamRecord:
    return StreamRecord(name, fragment or name, '{"type":"struct"}', inputs, "precise")


def output(mark: str = "a", rows: int = 3) -> Output:
    return Output((Segment(f"streams/x/{mark}.parquet", rows, 100, "ab12"),), rows, 100, f"{rows}:1:2")


def epochs(keeper: Keeper, fragment: str, count: int, by: Incarnation) -> None:
    """Claim and publish the first ``count`` epochs of a source fragment."""
    position = None
    for e in range(1, count + 1):
        keeper.claim(fragment, EpochNumber(e), {"outside": Span(position, e)}, by=by)
        keeper.publish(fragment, EpochNumber(e), {fragment: output(f"{fragment}{e}")}, by=by)
        position = e


class Listening(logging.Handler):
    """Hears what the keeper logs, and calls ``then`` at the first warning that it waits."""

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.heard: list[str] = []
        self._then = then

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())
        if len(self.heard) == 1:
            self._then()

    def __enter__(self) -> Listening:
        logging.getLogger("rekindle.keeper").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("rekindle.keeper").removeHandler(self)
