"""Durations as people write them: 250ms, 30s, 5m, 2h."""

from __future__ import annotations

import re

from rekindle.errors import DeclarationError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)\Z")


def parse_duration(text: str, *, what: str = "duration") -> float:
    """The seconds of a duration such as ``30s``; DeclarationError says what a right one looks like.

    >>> parse_duration("250ms"), parse_duration("1.5m")
    (0.25, 90.0)
    """
    match = _DURATION.match(text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if seconds <= 0:
        raise DeclarationError(
            f"{what} {text!r} is not a duration above 0",
            hint="write a number and a unit, without a space: 250ms, 30s, 5m, 2h, 1d",
        )
    return seconds


def show_duration(seconds: float) -> str:
    """A duration in one short word, for people.

    >>> show_duration(0.0123), show_duration(4.21), show_duration(200)
    ('12ms', '4.2s', '3m20s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    if seconds < 3600:
        return f"{int(seconds) // 60}m{int(seconds) % 60:02d}s"
    return f"{int(seconds) // 3600}h{int(seconds) % 3600 // 60:02d}m"
