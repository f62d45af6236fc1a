"""The end of a node's log: what it said last."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from rekindle.errors import DeclarationError

_BYTES_MAX = 16_384
_ERROR = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ ERROR \S+ ")
_HINT = "Hint: "


def tail(log: Path, lines_max: int = 40) -> list[str]:
    """The last lines of a log; none if there is no log."""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _BYTES_MAX))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-lines_max:]


def complaint(lines: Sequence[str]) -> DeclarationError:
    """The error that a node ended with, from the end of its log: what it logged last as an error, taken apart
    again into its primary line, detail and hint; or else its last lines as they are.
    """
    starts = [number for number, line in enumerate(lines) if _ERROR.match(line)]
    if not starts:
        told = list(lines[-12:])
        return DeclarationError("a node refused the pipeline file", detail="\n".join(told))
    primary = lines[starts[-1]][_end_of_match(lines[starts[-1]]) :]
    rest = list(lines[starts[-1] + 1 :])
    hint = next((line.removeprefix(_HINT) for line in rest if line.startswith(_HINT)), "")
    return DeclarationError(primary, detail="\n".join(line for line in rest if not line.startswith(_HINT)), hint=hint)


def _end_of_match(line: str) -> int:
    match = _ERROR.match(line)
    return 0 if match is None else match.end()


def without_secrets(line: str, keeper_url: str | None) -> str:
    """A line of a log without the keeper's password, however it is written."""
    for secret in _secrets(keeper_url):
        line = line.replace(secret, "***")
    return line


def _secrets(keeper_url: str | None) -> list[str]:
    if keeper_url is None:
        return []
    parts = urlsplit(keeper_url)
    raw = parts.netloc.rpartition("@")[0].partition(":")[2]
    queried = [value for key, value in parse_qsl(parts.query) if "password" in key]
    return [secret for secret in (raw, unquote(raw), *queried) if secret]
