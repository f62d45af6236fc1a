"""Damage on purpose: one row of what the receiver holds is lost, doubled or changed, to see the verdict turn bad."""

from __future__ import annotations

from pathlib import Path

import orjson

from rekindle.errors import RekindleError

KINDS = ("lose", "duplicate", "change")


def sabotage(folder: Path, kind: str) -> str:
    """Damage the first row in the middle one of the files that hold rows; returns what was done, for people.

    ``lose`` and ``change`` write the file anew; ``duplicate`` adds a file beside it with that one row.
    """
    files = sorted(path for path in folder.rglob("*.json") if path.stat().st_size)
    if not files:
        raise RekindleError("there is no row to damage", detail=str(folder))
    file = files[len(files) // 2]
    first, *others = file.read_bytes().splitlines(keepends=True)
    name = file.relative_to(folder)
    if kind == "lose":
        file.write_bytes(b"".join(others))
        return f"the first row of {name} was removed"
    if kind == "duplicate":
        copy = file.with_name(f"again-{file.name}")
        copy.write_bytes(first)
        return f"the first row of {name} was copied to {copy.relative_to(folder)}"
    if kind == "change":
        row = orjson.loads(first)
        column = next((c for c in reversed(row) if isinstance(row[c], int)), None)
        if column is None:
            raise RekindleError("the row has no number to change", detail=f"{file}: {first!r}")
        row[column] += 1
        file.write_bytes(b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE), *others]))
        return f"{column} in the first row of {name} is one more than it was"
    raise RekindleError(f"there is no sabotage {kind!r}", hint=f"one of {', '.join(KINDS)}")
