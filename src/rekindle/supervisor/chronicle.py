"""Events on their way to the keeper: noted at once, written when the keeper answers, in order."""

from __future__ import annotations

from collections import deque
from typing import Any

from rekindle.keeper.keeper import Keeper


class Chronicle:
    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._unsaid: deque[tuple[str, str, dict[str, Any]]] = deque()

    def note(self, kind: str, subject: str, **detail: Any) -> None:
        """Remember an event. Needs no keeper."""
        self._unsaid.append((kind, subject, detail))

    def say(self) -> None:
        """Write what was noted. Raises KeeperUnavailable; then the rest is still there for the next time."""
        while self._unsaid:
            kind, subject, detail = self._unsaid[0]
            self._keeper.event(kind, subject, **detail)
            self._unsaid.popleft()
