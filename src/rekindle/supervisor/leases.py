"""How long each incarnation has been quiet, by the supervisor's own monotonic clock.

A lease is judged by whether the number of heartbeats moved, so no two clocks are ever compared. What
this supervisor could not have seen does not count: when it was held up itself, or the keeper was away,
all leases start anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.keeper.records import Incarnation


@dataclass(slots=True)
class _Lease:
    beats: int
    moved_at_s: float


class Leases:
    """Feed it every look at the members; ask it how long one of them has been quiet."""

    def __init__(self, lease_s: float) -> None:
        self._gap_max_s = lease_s / 2
        self._looked_at_s: float | None = None
        self._leases: dict[Incarnation, _Lease] = {}

    def look(self, now_s: float, beats: Mapping[Incarnation, int]) -> float | None:
        """Take in one look, begun at ``now_s``. Returns the gap if it was so long that leases start anew."""
        gap_s = 0.0 if self._looked_at_s is None else now_s - self._looked_at_s
        held_up = gap_s > self._gap_max_s
        self._looked_at_s = now_s
        leases: dict[Incarnation, _Lease] = {}
        for incarnation, count in beats.items():
            lease = self._leases.get(incarnation)
            if lease is None or held_up or count != lease.beats:
                lease = _Lease(count, now_s)
            leases[incarnation] = lease
        self._leases = leases
        return gap_s if held_up else None

    def start_anew(self) -> None:
        """Forget how quiet everybody was: nobody could be heard."""
        self._leases = {}
        self._looked_at_s = None

    def quiet_s(self, incarnation: Incarnation, now_s: float) -> float:
        """Seconds since its heartbeats were seen to move; 0 for one not looked at yet."""
        lease = self._leases.get(incarnation)
        return 0.0 if lease is None else now_s - lease.moved_at_s
