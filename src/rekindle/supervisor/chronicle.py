"""Events on their way to the keeper: noted at once, written when the keeper answers, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rekindle.keeper.keeper import Keeper


class Chronicle:
    def __init__(self, keeper: Keeper, clock: Callable[[], float] = time.time) -> None:
        self._keeper = keeper
        self._clock = clock
        self._unsaid: deque[tuple[float, str, str, dict[str, Any]]] = deque()

    def note(self, kind: str, subject: str, **detail: Any) -> None:
        """Remember an event. Needs no keeper."""
        self._unsaid.append((self._clock(), kind, subject, detail))

    def say(self) -> None:
        """Write what was noted. Raises KeeperUnavailable; then the rest is still there for the next time."""
        while self._unsaid:
            at_s, kind, subject, detail = self._unsaid[0]
            self._keeper.event(kind, subject, at_s=at_s, **detail)
            self._unsaid.popleft()
