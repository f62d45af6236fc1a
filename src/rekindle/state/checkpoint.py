"""A replica's checkpoint: where it stands, and how another replica starts from it.

Spark writes a checkpoint as small files that never change: ``offsets/N`` before batch N, ``commits/N`` after it,
state files by version. So a checkpoint is forked by linking the files of its committed prefix, even while its
query runs. A fork never sees what its origin had begun but not committed; the claims will bring that again.

An epoch's number is read from the offsets file of its batch. Spark's own batch ids drift away from epochs when
state is repartitioned; the sources' log offsets do not, since the inbox moves each of them by one an epoch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.errors import BrokenInvariant
from rekindle.keeper.records import EpochNumber

BASE = "rekindle.json"
STATE_VERSION = re.compile(r"(\d+)(?:_[^.]*)?\.(?:changelog|zip|delta|snapshot)$")
SCHEMA_FOLDER = "/_stateSchema/"
SCHEMA_PATHS = "stateSchemaFilePaths"
BEFORE_SCHEMA = re.compile(r".*/state/(?=\d+/_stateSchema/)")
SOURCE_LOG = re.compile(r"(\d+)(?:\.compact)?$")


@dataclass(frozen=True, slots=True)
class Standing:
    """The last batch that a checkpoint committed, and its epoch. (-1, base) where there is none."""

    batch: int
    epoch: EpochNumber


def create(checkpoint: Path, base: EpochNumber) -> None:
    """Start an empty checkpoint whose first epoch is ``base + 1``."""
    checkpoint.mkdir(parents=True)
    (checkpoint / BASE).write_text(json.dumps({"base": base}))


def base_of(checkpoint: Path) -> EpochNumber:
    return EpochNumber(json.loads((checkpoint / BASE).read_text())["base"])


def standing(checkpoint: Path) -> Standing:
    """What the checkpoint has committed."""
    batch = max(numbered(checkpoint / "commits"), default=-1)
    if batch < 0:
        return Standing(-1, base_of(checkpoint))
    return Standing(batch, epoch_of(checkpoint, batch))


def epoch_of(checkpoint: Path, batch: int) -> EpochNumber:
    """The epoch that Spark's batch computes. Raises BrokenInvariant if its sources disagree."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    offsets = {json.loads(line)["logOffset"] for line in lines[2:]}
    if len(offsets) != 1:
        raise BrokenInvariant(
            f"the sources of batch {batch} do not stand at the same epoch",
            detail=f"{checkpoint}: {lines[2:]}",
        )
    return EpochNumber(base_of(checkpoint) + offsets.pop() + 1)


def watermark_us(checkpoint: Path, batch: int) -> int:
    """The watermark that Spark's batch goes by: settled before it began, the same in every replay of it."""
    metadata = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[1])
    return int(metadata["batchWatermarkMs"]) * 1000


def newest_shown_s(checkpoint: Path) -> float:
    """The modification time of the newest file that Spark's sources have seen, 0 if none. They take no file that is
    much older than that for new, however new it is: a clock that was set back must not make one."""
    newest_ms = 0
    for source in (checkpoint / "sources").glob("*"):
        logs = {_number(SOURCE_LOG, log.name, -1): log for log in source.iterdir() if not log.name.startswith(".")}
        if logs:
            _, *entries = logs[max(logs)].read_text().splitlines()
            newest_ms = max([newest_ms, *(json.loads(entry)["timestamp"] for entry in entries)])
    return newest_ms / 1000


def fork(origin: Path, target: Path) -> Standing:
    """Link the committed prefix of ``origin`` to ``target``; returns where it stands."""
    stand = standing(origin)
    target.mkdir(parents=True)
    if stand.batch < 0:
        shutil.copyfile(origin / BASE, target / BASE)
        return stand
    shutil.copyfile(origin / "metadata", target / "metadata")
    for log in ("offsets", "commits"):
        _link(origin / log, target / log, lambda name: name.isdigit() and int(name) <= stand.batch)
    last = stand.epoch - base_of(origin) - 1
    for source in (origin / "sources").iterdir():
        _link(source, target / "sources" / source.name, lambda name: _number(SOURCE_LOG, name, 1 << 62) <= last)
    for folder, _, files in os.walk(origin / "state"):
        relative = Path(folder).relative_to(origin)
        _link(Path(folder), target / relative, lambda name: _number(STATE_VERSION, name, 0) <= stand.batch + 1, files)
    # Last, since it makes this a checkpoint: whoever dies half-way leaves nothing that could be taken for one.
    shutil.copyfile(origin / BASE, target / BASE)
    if standing(target) != stand:
        raise BrokenInvariant("a checkpoint changed while it was forked", detail=f"{origin} stood at {stand}")
    return stand


def relocate(checkpoint: Path) -> None:
    """Let a checkpoint that was forked or restored refer to its own files only.

    Spark writes down the full paths of the schemas of states that ``transformWithState`` keeps: those of the place
    where the query first ran, which goes when its replica is over. Files are replaced, never changed: they may be
    links.
    """
    for path in sorted((checkpoint / "state").glob("*/_metadata/*/*")):
        if path.name.startswith(".") or SCHEMA_FOLDER not in (text := path.read_text()):
            continue
        version, *described = text.splitlines()
        moved = [
            json.dumps(_moved(json.loads(line), checkpoint.resolve()), separators=(",", ":")) for line in described
        ]
        written = "\n".join([version, *moved])
        if written != text:
            temporary = path.with_name(f".{path.name}.relocated")
            temporary.write_text(written)
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
            os.rename(temporary, path)


def _moved(described: dict[str, Any], checkpoint: Path) -> dict[str, Any]:
    for store in described.get("stateStoreInfo", ()):
        if store.get(SCHEMA_PATHS):
            store[SCHEMA_PATHS] = [
                f"file:{checkpoint}/state/{BEFORE_SCHEMA.sub('', path)}" for path in store[SCHEMA_PATHS]
            ]
    return described


def trim_source_logs(checkpoint: Path, epoch: EpochNumber) -> None:
    """Keep the log of files that Spark's file sources have seen from growing.

    Spark rewrites that log whole at every tenth epoch. It is cut to the entries of that epoch, which are all
    that can still be asked for: a path in the inbox never comes back.
    """
    last = epoch - base_of(checkpoint) - 1
    for source in (checkpoint / "sources").iterdir():
        log = source / f"{last}.compact"
        if not log.exists():
            continue
        version, *entries = log.read_text().splitlines()
        kept = [entry for entry in entries if json.loads(entry)["batchId"] == last]
        if len(kept) < len(entries):
            temporary = source / f".{log.name}.trimmed"
            temporary.write_text("\n".join([version, *kept]))
            (source / f".{log.name}.crc").unlink(missing_ok=True)
            os.rename(temporary, log)


def numbered(folder: Path) -> list[int]:
    """The batches that a log folder holds."""
    return sorted(int(f.name) for f in folder.iterdir() if f.name.isdigit()) if folder.exists() else []


def _number(pattern: re.Pattern[str], name: str, otherwise: int) -> int:
    match = pattern.match(name)
    return int(match.group(1)) if match else otherwise


def _link(origin: Path, target: Path, wanted: Callable[[str], bool], files: list[str] | None = None) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in files if files is not None else [f.name for f in origin.iterdir()]:
        if name.startswith(".") or not wanted(name):
            continue
        try:
            os.link(origin / name, target / name)
        except FileNotFoundError:
            continue  # Spark removed an old version meanwhile; what is needed is newer
        except OSError:
            shutil.copyfile(origin / name, target / name)
