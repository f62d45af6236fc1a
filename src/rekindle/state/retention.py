"""Retention: of the objects in the stores, exactly those that the kept safe points need are kept.

Kept are the newest few safe points and the pinned ones. What others may still be writing is left alone: anything in
a folder of an epoch after the newest safe point. Older folders are safe to sweep, since a safe point can only be
recorded for a newer epoch, built on the newest.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import partial

from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, SafePoint
from rekindle.state.couriers import Couriers
from rekindle.state.manifest import Manifest
from rekindle.state.restore import read_manifest
from rekindle.state.stores import Store

log = logging.getLogger("rekindle.state")
FOLDER = re.compile(r"[^/]+/(\d+)-\d+-[^/]+/")


class Retention:
    def __init__(
        self,
        fragment: str,
        stores: Sequence[Store],
        keep: int,
        keeper: Keeper,
        incarnation: Incarnation,
        couriers: Couriers,
    ) -> None:
        self._fragment = fragment
        self._stores = {store.name: store for store in stores}
        self._keep = keep
        self._keeper = keeper
        self._by = incarnation
        self._couriers = couriers
        self._manifests: dict[EpochNumber, Manifest] = {}
        self._points: dict[EpochNumber, SafePoint] = {}
        self._unreadable: set[EpochNumber] = set()
        self.sweep_due = True
        """Whether there may be objects that no safe point known here refers to."""

    def keep(self, point: SafePoint, manifest: Manifest) -> None:
        """Remember what a safe point refers to."""
        self._points[point.epoch], self._manifests[point.epoch] = point, manifest

    def retire(self) -> None:
        """Forget safe points that need not be kept, and remove what only they referred to."""
        kept = self._keeper.retire_safe_points(self._fragment, keep=self._keep, by=self._by)
        if not self._read(kept):
            return
        wanted = {name for point in kept for name in self._names(point)}
        retired = self._points.keys() - {point.epoch for point in kept}
        if self.sweep_due:
            self.sweep_due = not self._sweep(wanted, kept[-1].epoch)
        else:
            unwanted = {name for epoch in retired for name in self._names(self._points[epoch])} - wanted
            self.sweep_due = not self._remove({name: sorted(unwanted) for name in self._stores})
        for epoch in retired:
            del self._points[epoch], self._manifests[epoch]

    def _names(self, point: SafePoint) -> set[str]:
        return {point.manifest, *self._manifests[point.epoch].objects}

    def _read(self, kept: Sequence[SafePoint]) -> bool:
        """Know what every kept safe point refers to; False, and nothing may be removed, if one cannot be read."""
        for point in kept:
            if point.epoch in self._points:
                continue
            manifest = read_manifest(point, list(self._stores.values()), self._keeper)
            if manifest is None:
                if point.epoch not in self._unreadable:
                    self._unreadable.add(point.epoch)
                    self._keeper.event("backup_nothing_removed", self._fragment, epoch=point.epoch)
                return False
            self.keep(point, manifest)
            self.sweep_due = True  # another replica made it, and may have left objects
        return True

    def _sweep(self, wanted: set[str], newest: EpochNumber) -> bool:
        """Remove whatever nobody refers to. True if every store was swept."""
        found = self._couriers.ask({s.name: partial(s.sizes, self._fragment) for s in self._couriers.usable()})
        unwanted = {
            store: [n for n in names if n not in wanted and (m := FOLDER.match(n)) and int(m.group(1)) <= newest]
            for store, names in found.items()
        }
        return self._remove(unwanted) and found.keys() == self._stores.keys()

    def _remove(self, unwanted: dict[str, list[str]]) -> bool:
        usable = {store.name for store in self._couriers.usable()}
        tasks = {s: partial(self._stores[s].remove, names) for s, names in unwanted.items() if names and s in usable}
        done = self._couriers.ask(tasks)
        return all(not names or store in done for store, names in unwanted.items())
