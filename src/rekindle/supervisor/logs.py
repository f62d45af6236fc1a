"""The end of a node's log: what it said last."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

_BYTES_MAX = 16_384


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


def complaint(log: Path) -> list[str]:
    """What a node that refused its pipeline file had to say: at least one line."""
    return tail(log, 12) or ["a node refused the pipeline file, and did not say why"]


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
