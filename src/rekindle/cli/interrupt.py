"""Ctrl-C, and whatever else asks a command to end, as one exception: so that it ends what it has started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""


@contextmanager
def interruptible() -> Iterator[None]:
    """A polite end from outside counts as Ctrl-C, so that nothing is left running."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
