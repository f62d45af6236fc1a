"""Backup: copies of a fragment's checkpoint go to stores in the background, layer by layer; each makes a safe point.

A layer's new files are packed into one object for each part; the objects are spread over the stores, and so is the
manifest that says where every file of the checkpoint is. Only when enough copies of all of it are stored does the
keeper record the safe point, so whoever dies half-way leaves objects that nobody refers to, which the next sweep
removes. Each layer takes what stands now: when epochs come faster than they ship, those between are never shipped.

A file counts as kept for as long as the stores that the manifest names have not been found without it: all are
looked at when a backup starts, and each one when it comes back; what is lost is shipped again.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rekindle.errors import Fenced, RekindleError
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, SafePoint
from rekindle.state import checkpoint as checkpoints
from rekindle.state.couriers import Couriers, Parcel, Retry, TooFewStores
from rekindle.state.layers import Checksums, Entry, Layer, capture, layer_of
from rekindle.state.manifest import Manifest, Object, Place, digest_of, pack, packed
from rekindle.state.restore import read_manifest
from rekindle.state.retention import Retention
from rekindle.state.stores import Store, check_stores

log = logging.getLogger("rekindle.state")

WASTE_BYTES = 64 * 1024
"""An object is packed anew when more than this, and more than half of it, is not needed any more."""


def _nothing(step: str) -> None:
    """No step is watched."""


class Backup:
    """Ships the layers of one replica's checkpoint. ``stores`` must be all that the fragment's safe points use.

    ``at`` is called at each step: captured, objects_stored, manifest_stored, recorded, retired. ``token`` gives
    names that nobody else gives. ``scratch`` is best on the checkpoint's file system, where links are free. From one
    layer to the next at least ``interval_s`` pass. A folder of ours is made in each store, but only while there is no
    safe point yet: a disk that is not mounted must not be taken for an empty store. ``ours`` says that the stores lie
    in the home: there it is made whenever it is missing.
    """

    def __init__(
        self,
        fragment: str,
        checkpoint: Path,
        stores: Sequence[Store],
        copies: int,
        keeper: Keeper,
        incarnation: Incarnation,
        *,
        scratch: Path,
        ours: bool = False,
        keep: int = 2,
        interval_s: float = 0.0,
        retry: Retry | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        token: Callable[[], str] = lambda: uuid.uuid4().hex[:12],
        at: Callable[[str], None] = _nothing,
    ) -> None:
        check_stores(stores, copies)
        self._fragment = fragment
        self._checkpoint = checkpoint
        self._stores = {store.name: store for store in stores}
        self._copies = copies
        self._keeper = keeper
        self._by = incarnation
        self._scratch = scratch
        self._ours = ours
        self._interval_s = interval_s
        self._token = token
        self._at = at
        self._closing = threading.Event()
        self._retry = retry or Retry()
        self._couriers = Couriers(stores, self._retry, self._tell, self._closing, monotonic)
        self._retention = Retention(fragment, stores, keep, keeper, incarnation, self._couriers)
        self._checksums = Checksums()
        self._last: tuple[SafePoint, Manifest] | None = None
        self._offered = EpochNumber(0)
        self._tried = EpochNumber(0)
        self._done = EpochNumber(0)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self.error: BaseException | None = None

    # -- in the background -------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"rekindle-backup-{self._fragment}", daemon=True)
        self._thread.start()

    def offer(self, epoch: EpochNumber) -> None:
        """Spark has committed ``epoch``. Never blocks, and is soon done with, however late the stores are."""
        with self._changed:
            self._offered = max(self._offered, epoch)
            self._changed.notify_all()

    def wait(self, epoch: EpochNumber, timeout_s: float) -> bool:
        """Wait until ``epoch``, or a later one, was shipped; False if it was not."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= epoch, timeout_s) and self._done >= epoch

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop shipping. What is not recorded by then does not become a safe point."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = self._retry.away_s
        told = ""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._offered > self._tried or self._closing.is_set())
                offered = self._offered
            if self._closing.is_set():
                return
            try:
                self.ship()
                self._tried, pause_s, told = offered, self._retry.away_s, ""
                self._closing.wait(self._interval_s)
                continue
            except Fenced as error:
                self.error = error
                return
            except TooFewStores as error:
                log.info("the backup of %s waits: %s", self._fragment, error)
                pause_s = self._couriers.pause_s()
            except Exception as error:
                # The pipeline goes on without this backup; that it lags is for people to see, once a reason.
                log.warning("the backup of %s failed", self._fragment, exc_info=True)
                self.error = error
                if (why := f"{type(error).__name__}: {error}") != told:
                    told = why
                    self._note("backup_failed", offered, why)
                pause_s = min(pause_s * 2, self._retry.away_s_max)
            self._closing.wait(pause_s)

    def _note(self, kind: str, epoch: EpochNumber, why: str) -> None:
        try:
            self._keeper.event(kind, self._fragment, epoch=epoch, reason=why, incarnation=self._by)
        except RekindleError:
            log.exception("an event of the backup of %s could not be recorded", self._fragment)

    # -- one layer ---------------------------------------------------------------------------------

    def ship(self) -> SafePoint | None:
        """Ship what the checkpoint has committed now. None if that is no news, or another replica was first.

        Raises Fenced, TooFewStores, StateDamaged for a checkpoint that lacks files.
        """
        newest = self._keeper.safe_point(self._fragment)
        if checkpoints.standing(self._checkpoint).epoch <= (newest.epoch if newest is not None else 0):
            self._finished(newest)
            return None
        self._adopt(newest)
        self._look_at_returned(newest)
        captured = self._scratch / f"capture-{self._token()}"
        try:
            capture(self._checkpoint, captured)
            self._at("captured")
            secured = self._store(captured, newest)
        finally:
            shutil.rmtree(captured, ignore_errors=True)
        if secured is None:
            return self.ship()  # another replica came first; this one's epoch may be newer all the same
        self._retention.retire()
        self._at("retired")
        self._finished(secured)
        return secured

    def _store(self, captured: Path, newest: SafePoint | None) -> SafePoint | None:
        layer, known = self._layer(captured)
        folder = f"{self._fragment}/{layer.epoch:012d}-{self._by}-{self._token()}"
        new, old_objects = set(layer.new), self._objects()
        files = {entry: known[entry] for entry in layer.needed if entry not in new}
        objects = {place.object: old_objects[place.object] for place in files.values()}
        parcels = []
        for part, entries in layer.parts().items():
            name = f"{folder}/{part}.tar"
            offsets, size = packed(entries)
            files |= {entry: Place(name, offset) for entry, offset in offsets.items()}
            objects[name] = Object(name, size, sum(entry.bytes for entry in entries), ())
            parcels.append(Parcel(name, size, _rotation(part), partial(pack, captured, entries)))
        held = self._couriers.deliver(parcels, self._copies)
        self._at("objects_stored")
        objects |= {name: replace(objects[name], stores=stores) for name, stores in held.items()}
        manifest = Manifest(self._fragment, layer.epoch, layer.batch, files, objects)
        content = manifest.to_bytes()
        named = f"{folder}/manifest.json"
        held = self._couriers.deliver(
            [Parcel(named, len(content), layer.epoch, lambda: iter((content,)))], self._copies
        )
        self._at("manifest_stored")
        secured = self._keeper.record_safe_point(
            self._fragment,
            layer.epoch,
            batch=layer.batch,
            built_on=newest.epoch if newest is not None else EpochNumber(0),
            manifest=named,
            checksum=digest_of(content),
            stores=held[named],
            bytes=manifest.size,
            by=self._by,
        )
        self._at("recorded")
        if not secured.won:
            self._retention.sweep_due = True
            return None
        self._last = (secured.newest, manifest)
        self._retention.keep(secured.newest, manifest)
        return secured.newest

    def _layer(self, captured: Path) -> tuple[Layer, dict[Entry, Place]]:
        """The layer, and where the known files are. Known are those whose objects are whole and mostly needed."""
        objects = self._objects()
        known = dict(self._last[1].files) if self._last is not None else {}
        known = {e: place for e, place in known.items() if len(objects[place.object].stores) >= self._copies}
        epoch = checkpoints.standing(captured).epoch
        layer = layer_of(captured, epoch, {entry.path: entry for entry in known}, self._checksums)
        live: dict[str, int] = {}
        for entry in set(layer.needed) - set(layer.new):
            live[known[entry].object] = live.get(known[entry].object, 0) + entry.bytes
        sparse = {name for name, used in live.items() if objects[name].payload - used > max(WASTE_BYTES, used)}
        if sparse:
            known = {e: place for e, place in known.items() if place.object not in sparse}
            layer = layer_of(captured, epoch, {entry.path: entry for entry in known}, self._checksums)
        return layer, known

    def _objects(self) -> dict[str, Object]:
        return dict(self._last[1].objects) if self._last is not None else {}

    # -- what is there already ---------------------------------------------------------------------

    def _adopt(self, newest: SafePoint | None) -> None:
        """Know what the newest safe point holds, whoever made it. If it cannot be read, everything ships anew."""
        if newest is None or (self._last is not None and self._last[0] == newest):
            return
        manifest = read_manifest(newest, list(self._stores.values()), self._keeper)
        self._last = (newest, manifest) if manifest is not None else None

    def _look_at_returned(self, newest: SafePoint | None) -> None:
        """Find out which objects are not where they should be, and what else lies about."""
        make = self._ours or newest is None
        asked = {s.name: partial(self._look_into, s, make) for s in self._couriers.returned()}
        if not asked:
            return
        found = self._couriers.ask(asked)
        self._couriers.looked_at(list(found))
        if self._last is not None:
            point, manifest = self._last
            objects = {}
            for name, item in manifest.objects.items():
                gone = {s for s in item.stores if s in found and found[s].get(name) != item.bytes}
                gone |= set(item.stores) - self._stores.keys()
                objects[name] = replace(item, stores=tuple(s for s in item.stores if s not in gone))
            lost = [name for name, item in objects.items() if item.stores != manifest.objects[name].stores]
            if lost:
                self._keeper.event("backup_copies_lost", self._fragment, objects=len(lost), stores=sorted(found))
            self._last = (point, replace(manifest, objects=objects))
        if newest is not None:
            self._retention.sweep_due = True

    def _look_into(self, store: Store, make: bool) -> dict[str, int]:
        if make:
            store.prepare()
        return store.sizes(self._fragment)

    def _finished(self, point: SafePoint | None) -> None:
        if point is not None:
            with self._changed:
                self._done = max(self._done, point.epoch)
                self._changed.notify_all()

    def _tell(self, kind: str, store: str, why: str) -> None:
        self._keeper.event(kind, self._fragment, store=store, reason=why, incarnation=self._by)


def _rotation(part: str) -> int:
    """Partition p goes to the store after partition p-1's, in every epoch; the logs to the first."""
    return int(part.rpartition("-")[2]) + 1 if "-" in part else 0
