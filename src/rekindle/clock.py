"""The wall clock that nodes go by, which a drill can shift.

``REKINDLE_CLOCK`` names a file that holds a number of seconds. While it does, the time is that much later, or earlier
if it is negative. Only nodes, and the sources that they read, go by this clock: leases are judged by monotonic time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

VARIABLE = "REKINDLE_CLOCK"


def wall() -> float:
    """Seconds since 1970, shifted if that was asked for."""
    path = os.environ.get(VARIABLE)
    return time.time() if not path else time.time() + shift_s(Path(path))


def shift_s(file: Path) -> float:
    """By how much the clock is shifted now; a file that is missing or not a number shifts nothing."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return 0.0
