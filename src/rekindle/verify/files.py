"""Segments and layers against their checksums: what is missing, what is corrupt, what nobody refers to.

A live home goes on while it is checked. So what is not there is looked up in the keeper once more: an epoch that was
trimmed meanwhile, or a safe point that was retired, is no finding. What a live incarnation has not published yet is
not taken for a left-over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rekindle.errors import BrokenInvariant, SegmentDamaged
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import Epoch, SafePoint
from rekindle.state.layers import Entry
from rekindle.state.manifest import Manifest, digest_of
from rekindle.state.retention import FOLDER
from rekindle.state.stores import Store, StoreFailed
from rekindle.streams.segments import verify
from rekindle.streams.writer import ATTEMPT
from rekindle.verify.findings import LAYERS, NOTE, SEGMENTS, WRONG, Finding

PUT_BACK = "put the file back from a copy; what was published is never written anew"
NEXT_LAYER = "the next layer of a run ships what is lost again; until then the state has fewer copies than asked for"
SWEPT = "a crash left it, or a replica that lost a race; the next run sweeps it, and it can be removed by hand"
Tick = Callable[[], None]


def check_segments(home: Home, keeper: Keeper, epochs: Sequence[Epoch], tick: Tick) -> list[Finding]:
    """Every segment of these epochs; ``tick`` is called for each."""
    found = []
    for epoch in epochs:
        for segment in epoch.output.segments:
            tick()
            try:
                verify(home, segment, stream=epoch.stream, epoch=epoch.epoch)
            except SegmentDamaged as damage:
                if keeper.epoch(epoch.stream, epoch.epoch) is None:
                    break  # trimmed meanwhile
                found.append(
                    Finding(WRONG, SEGMENTS, epoch.stream, epoch.epoch, damage.primary, damage.detail, PUT_BACK)
                )
    return found


def stray_segments(home: Home, ledger: Ledger) -> list[Finding]:
    """Files below ``streams`` that no record names. The ledger must have been read before."""
    live = {member.incarnation for member in ledger.members if member.state in ("starting", "running")}
    known = {s.path for epochs in ledger.epochs.values() for epoch in epochs for s in epoch.output.segments}
    doubtful = {(d.subject, int(d.epoch)) for d in ledger.damaged if d.table == "epochs"}
    strays: dict[str, int] = {}
    for path in sorted(home.streams.rglob("*")):
        relative = path.relative_to(home.root)
        if path.is_dir() or str(relative) in known:
            continue
        parts = relative.parts
        attempt = ATTEMPT.match(parts[2]) if len(parts) > 3 else None
        if attempt is not None:
            stream, epoch = parts[1], int(attempt[1])
            in_hand = int(attempt[2]) in live or not ledger.members or int(attempt[2]) > ledger.members[-1].incarnation
            trimmed = 0 < epoch < ledger.oldest(stream)
            if in_hand or trimmed or (stream, epoch) in doubtful:
                continue
        folder = str(relative.parent if attempt is not None else relative)
        strays[folder] = strays.get(folder, 0) + 1
    return [
        Finding(NOTE, SEGMENTS, path.split("/")[1], 0, f"{count} file(s) that no record names", path, SWEPT)
        for path, count in strays.items()
    ]


def check_layers(
    fragment: str, points: Sequence[SafePoint], stores: Sequence[Store], keeper: Keeper, tick: Tick
) -> tuple[int, list[Finding]]:
    """Every file of these safe points in every store that is on record for it; how many copies of objects were read.

    ``stores`` are those that can be opened. ``tick`` is called for each safe point.
    """
    by_name = {store.name: store for store in stores}
    found: list[Finding] = []
    read: set[tuple[str, str]] = set()
    named: dict[str, set[str]] = {}
    unreadable = False
    for point in points:
        tick()
        wrong: list[Finding] = []
        manifest = _manifest(point, by_name, wrong)
        if manifest is None:
            unreadable = True
        for store in point.stores:
            named.setdefault(store, set()).add(point.manifest)
        if manifest is not None:
            for store, item in [(s, o) for o in manifest.objects.values() for s in o.stores]:
                named.setdefault(store, set()).add(item.name)
                if (store, item.name) not in read:
                    read.add((store, item.name))
                    wrong += _object(point, manifest, item.name, store, by_name)
        if wrong and is_kept(point, keeper):
            found += wrong
    if points and not unreadable:
        found += _strays(fragment, points[-1], by_name, named)
    return len(read), found


def is_kept(point: SafePoint, keeper: Keeper) -> bool:
    """Whether a safe point is on record still."""
    try:
        return point.epoch in {kept.epoch for kept in keeper.safe_points(point.fragment)}
    except BrokenInvariant:
        return True  # a record of another one is damaged, which is told elsewhere


def _finding(point: SafePoint, store: str, name: str, why: str) -> Finding:
    what = f"the layer {name.rpartition('/')[2]} of {point.fragment!r} in store {store} is not good: {why}"
    return Finding(WRONG, LAYERS, point.fragment, point.epoch, what, f"{store}: {name}", NEXT_LAYER)


def _manifest(point: SafePoint, stores: dict[str, Store], wrong: list[Finding]) -> Manifest | None:
    manifest = None
    what = f"the safe point of {point.fragment!r} at epoch {point.epoch}"
    for name in point.stores:
        why = "the store cannot be opened from here"
        if name in stores:
            try:
                content = b"".join(stores[name].read(point.manifest))
                why = "" if digest_of(content) == point.checksum else "its content is not what was stored"
                manifest = manifest or (None if why else Manifest.from_bytes(content))
            except StoreFailed as failed:
                why = str(failed)
        if why:
            wrong.append(_finding(point, name, point.manifest, why))
    if manifest is None:
        what = (
            f"the safe point of {point.fragment!r} at epoch {point.epoch} has no good manifest: it cannot be restored"
        )
        hint = "bring a store back that has it; as long as the inputs are kept, the claims rebuild the state"
        wrong.append(Finding(WRONG, LAYERS, point.fragment, point.epoch, what, point.manifest, hint))
    elif (manifest.fragment, manifest.epoch, manifest.batch, manifest.size) != (
        point.fragment,
        point.epoch,
        point.batch,
        point.bytes,
    ):
        where = f"manifest: {manifest.fragment} {manifest.epoch}, batch {manifest.batch}, {manifest.size} bytes"
        what = (
            f"the record of the safe point of {point.fragment!r} at epoch {point.epoch} is not what its manifest says"
        )
        hint = "the record was changed behind the keeper's back; bring the keeper's database back from a copy"
        wrong.append(Finding(WRONG, LAYERS, point.fragment, point.epoch, what, where, hint))
    return manifest


def _object(point: SafePoint, manifest: Manifest, name: str, store: str, stores: dict[str, Store]) -> Iterator[Finding]:
    """The files of one object in one store, those that this safe point needs."""
    if store not in stores:
        yield _finding(point, store, name, "the store cannot be opened from here")
        return
    size = manifest.objects[name].bytes
    files: list[tuple[int, Entry]] = sorted(
        (place.offset, entry) for entry, place in manifest.files.items() if place.object == name
    )
    try:
        there = stores[store].size(name)
        if there != size:
            yield _finding(point, store, name, "it is missing" if there is None else f"{there} bytes of {size}")
            return
        parts = stores[store].read(name, [(offset, entry.bytes) for offset, entry in files])
        bad = [
            entry.path
            for (_, entry), body in zip(files, parts, strict=True)
            if len(body) != entry.bytes or digest_of(body) != entry.checksum
        ]
    except StoreFailed as failed:
        yield _finding(point, store, name, str(failed))
        return
    if bad:
        yield _finding(point, store, name, f"{bad[0]} in it is not what was stored ({len(bad)} of {len(files)} files)")


def _strays(
    fragment: str, newest: SafePoint, stores: dict[str, Store], named: dict[str, set[str]]
) -> Iterator[Finding]:
    """Objects that no kept safe point refers to, and that nobody may be writing any more."""
    for name, store in stores.items():
        try:
            there = store.sizes(fragment)
        except StoreFailed as failed:
            yield Finding(WRONG, LAYERS, fragment, 0, f"a store does not answer: {failed}", name, NEXT_LAYER)
            continue
        for item in sorted(there.keys() - named.get(name, set())):
            folder = FOLDER.match(item)
            if folder is not None and int(folder[1]) <= newest.epoch:
                yield Finding(
                    NOTE, LAYERS, fragment, 0, "an object that no safe point refers to", f"{name}: {item}", SWEPT
                )
