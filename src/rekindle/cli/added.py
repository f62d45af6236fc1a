"""What a run added to each stream, counted while it goes on: what it published may be trimmed before it ends."""

from __future__ import annotations

from typing import Any

from rekindle.keeper import Keeper

_PAGE = 1000


class Added:
    """Counts from when it is made. ``count`` must be called more often than epochs are trimmed; rows of an epoch that
    was never seen are missing."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._before = {stream: int(epoch.epoch) for stream, epoch in keeper.heads().items()}
        self._through = dict(self._before)
        self._rows: dict[str, int] = {}

    def count(self) -> None:
        """Look at what was published since the last call."""
        for stream, head in self._keeper.heads().items():
            through = self._through.get(stream, 0)
            while through < head.epoch:
                page = self._keeper.epochs(stream, after=through, through=int(head.epoch), limit=_PAGE)
                self._rows[stream] = self._rows.get(stream, 0) + sum(epoch.output.rows for epoch in page)
                through = int(page[-1].epoch) if page else int(head.epoch)
            self._through[stream] = through

    def streams(self) -> dict[str, dict[str, Any]]:
        """By stream: the epochs and rows that were added, and the newest epoch."""
        return {
            stream: {
                "epochs": through - self._before.get(stream, 0),
                "rows": self._rows.get(stream, 0),
                "epoch": through,
            }
            for stream, through in sorted(self._through.items())
        }
