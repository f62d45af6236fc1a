"""Restore: a checkpoint, put together again from the copies in the stores.

Fault model. Survived, as long as one good copy of each file is left: stores that are away, objects that are
missing, cut or damaged. Every file is checked against its checksum before it counts. A checkpoint is there whole
or not at all. Not survived: a store that never answers.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from rekindle.errors import BrokenInvariant, StateDamaged
from rekindle.keeper.records import EpochNumber, SafePoint
from rekindle.state.checkpoint import Standing, standing
from rekindle.state.layers import Entry
from rekindle.state.manifest import Manifest, Object, digest_of
from rekindle.state.stores import Store, StoreFailed

log = logging.getLogger("rekindle.state")
READERS_A_STORE = 2
READERS_MAX = 16
GAP_BYTES = 64 * 1024
"""Needed files of an object that lie closer together than this are read in one go."""
READ_BYTES_MAX = 32 * 1024 * 1024
"""But never more at once than this, or one file."""


class Records(Protocol):
    """What restoring asks a keeper for, and tells it."""

    def safe_points(self, fragment: str) -> list[SafePoint]: ...

    def event(self, kind: str, subject: str, **detail: Any) -> None: ...


def restore(
    fragment: str, epoch: EpochNumber | None, stores: Sequence[Store], keeper: Records, target: Path
) -> Standing:
    """Assemble the checkpoint of a safe point (the newest if ``epoch`` is None) at ``target``, which must not exist.

    Raises BrokenInvariant if there is no such safe point, StateDamaged naming what no store has a good copy of. Each
    copy that is not good is the event ``restore_copy_damaged``. Pin a safe point that is not the newest before.
    """
    stand, _ = restore_onto({}, fragment, epoch, stores, keeper, target)
    return stand


def restore_onto(
    have: Mapping[Entry, Path],
    fragment: str,
    epoch: EpochNumber | None,
    stores: Sequence[Store],
    keeper: Records,
    target: Path,
) -> tuple[Standing, dict[Entry, Path]]:
    """As ``restore``; files that are known to be good elsewhere on this host are linked, not read from the stores.
    Returns also where each file of the checkpoint is, for the next time."""
    point = find(fragment, epoch, keeper)
    while True:
        try:
            return _assemble(have, point, stores, keeper, target)
        except StateDamaged:
            newest = find(fragment, epoch, keeper)
            if newest == point:
                raise
            point = newest  # while we were reading, newer ones came, and this one was removed


def find(fragment: str, epoch: EpochNumber | None, keeper: Records) -> SafePoint:
    """The safe point at ``epoch``, or the newest."""
    kept = keeper.safe_points(fragment)
    found = kept[-1:] if epoch is None else [point for point in kept if point.epoch == epoch]
    if not found:
        wanted = "a safe point" if epoch is None else f"a safe point at epoch {epoch}"
        raise BrokenInvariant(f"{fragment!r} has not {wanted}", detail=f"kept are {[p.epoch for p in kept]}")
    return found[0]


def read_manifest(point: SafePoint, stores: Sequence[Store], keeper: Records) -> Manifest | None:
    """The manifest of a safe point, from the first store that has a good copy; None if none has."""
    for store in in_turn(stores, point.stores, point.epoch):
        why = ""
        try:
            content = b"".join(store.read(point.manifest))
            if digest_of(content) == point.checksum:
                return Manifest.from_bytes(content)
            why = "its content is not what was stored"
        except StoreFailed as failed:
            why = str(failed)
        if store.name in point.stores:
            _damaged(keeper, point, store.name, point.manifest, why)
    return None


def in_turn(stores: Sequence[Store], recorded: Sequence[str], rotation: int) -> list[Store]:
    """The stores to ask: first those on record, starting with another one for another ``rotation``; then the rest."""
    first = [store for store in stores if store.name in recorded]
    start = rotation % len(first) if first else 0
    return [*first[start:], *first[:start], *(store for store in stores if store.name not in recorded)]


def _assemble(
    have: Mapping[Entry, Path], point: SafePoint, stores: Sequence[Store], keeper: Records, target: Path
) -> tuple[Standing, dict[Entry, Path]]:
    if target.exists():
        raise BrokenInvariant("a checkpoint is restored to a folder that is there already", detail=str(target))
    manifest = read_manifest(point, stores, keeper)
    if manifest is None:
        raise _lost(point, [point.manifest], stores)
    building = target.with_name(f".{target.name}.restoring")
    if building.exists():
        shutil.rmtree(building)
    building.mkdir(parents=True)
    wanted: dict[str, list[tuple[int, Entry]]] = {}
    for entry, place in manifest.files.items():
        if entry in have and _linked(have[entry], building / entry.path):
            continue
        wanted.setdefault(place.object, []).append((place.offset, entry))
    readers = max(1, min(READERS_MAX, READERS_A_STORE * len(stores)))
    with ThreadPoolExecutor(readers, thread_name_prefix="rekindle-restore") as pool:
        reading = [
            pool.submit(_unpack, point, manifest.objects[name], sorted(files), stores, keeper, building)
            for name, files in sorted(wanted.items())
        ]
        lost = sorted(path for answer in reading for path in answer.result())
    if lost:
        shutil.rmtree(building)
        raise _lost(point, lost, stores)
    stand = standing(building)
    if (stand.batch, stand.epoch) != (point.batch, point.epoch):
        raise BrokenInvariant(
            f"the checkpoint of {point.fragment!r} restored at epoch {point.epoch} stands elsewhere", detail=str(stand)
        )
    os.rename(building, target)
    return stand, {entry: target / entry.path for entry in manifest.files}


def _linked(origin: Path, target: Path) -> bool:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(origin, target)
    except OSError:
        return False
    return True


def _unpack(
    point: SafePoint,
    item: Object,
    files: Sequence[tuple[int, Entry]],
    stores: Sequence[Store],
    keeper: Records,
    building: Path,
) -> list[str]:
    """Write the files of one object; returns the paths that no store has a good copy of."""
    left = list(files)
    # The rotation is by name, not by Python's hash, so that two runs read alike.
    for store in in_turn(stores, item.stores, crc32(item.name.encode())):
        bad, why = _take(store, item, left, building)
        if bad and store.name in item.stores:
            _damaged(keeper, point, store.name, item.name, why)
        left = bad
        if not left:
            return []
    return [entry.path for _, entry in left]


def _take(
    store: Store, item: Object, files: Sequence[tuple[int, Entry]], building: Path
) -> tuple[list[tuple[int, Entry]], str]:
    """Write those files of the object whose copy in this store is good; returns the others, and why."""
    bad: list[tuple[int, Entry]] = []
    why = ""
    groups = _groups(files)
    parts = store.read(item.name, [(start, end - start) for start, end, _ in groups])
    for number, (start, _, members) in enumerate(groups):
        try:
            content = next(parts)
        except StoreFailed as failed:
            return bad + [file for _, _, rest in groups[number:] for file in rest], str(failed)
        for offset, entry in members:
            body = content[offset - start : offset - start + entry.bytes]
            if len(body) != entry.bytes or digest_of(body) != entry.checksum:
                bad.append((offset, entry))
                why = f"{entry.path} in it is not what was stored"
                continue
            path = building / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
    parts.close()
    return bad, why


def _groups(files: Sequence[tuple[int, Entry]]) -> list[tuple[int, int, list[tuple[int, Entry]]]]:
    """Files in the order of their offsets, together where they lie close."""
    groups: list[tuple[int, int, list[tuple[int, Entry]]]] = []
    for offset, entry in files:
        start, end, members = groups[-1] if groups else (0, 0, [])
        if groups and offset - end <= GAP_BYTES and offset + entry.bytes - start <= READ_BYTES_MAX:
            groups[-1] = (start, offset + entry.bytes, [*members, (offset, entry)])
        else:
            groups.append((offset, offset + entry.bytes, [(offset, entry)]))
    return groups


def _damaged(keeper: Records, point: SafePoint, store: str, name: str, why: str) -> None:
    keeper.event("restore_copy_damaged", point.fragment, epoch=point.epoch, store=store, object=name, reason=why)


def _lost(point: SafePoint, names: Sequence[str], stores: Sequence[Store]) -> StateDamaged:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return StateDamaged(
        f"the checkpoint of {point.fragment!r} at epoch {point.epoch} has no good copy of {shown}",
        detail=f"asked: {', '.join(store.name for store in stores) or 'no store'}",
        hint="bring a store back that has it, or restore another safe point",
    )
