"""The layers of one fragment, as a node sees them: its owner ships them, those that stand by restore them."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from pathlib import Path

from rekindle.errors import RekindleError
from rekindle.keeper.records import EpochNumber
from rekindle.node.worker import Context
from rekindle.plan import Fragment
from rekindle.recovery.policy import Layers
from rekindle.state.backup import Backup
from rekindle.state.checkpoint import Standing
from rekindle.state.layers import Entry
from rekindle.state.restore import restore, restore_onto
from rekindle.state.stores import Store, open_stores

log = logging.getLogger("rekindle.node")
HOME_STORE = "backup"
FOLLOW_S_MIN = 0.2


class Shipping:
    def __init__(self, context: Context, fragment: Fragment, layers: Layers) -> None:
        self._context = context
        self._name = fragment.name
        self._layers = layers
        self._opened: list[Store] | None = None
        self._backup: Backup | None = None
        self._swap = threading.Lock()
        self._following = threading.Event()
        self.restored = EpochNumber(0)
        """The epoch of the newest layer that ``follow`` has restored."""

    def offer(self, checkpoint: Path, epoch: EpochNumber) -> None:
        """Spark has committed ``epoch`` to this replica's checkpoint. Only the fragment's owner ships it."""
        if self._backup is None:
            if not self._context.ownership.owns(self._name):
                return
            self._backup = Backup(
                self._name,
                checkpoint,
                self._stores(),
                self._layers.copies,
                self._context.keeper,
                self._context.incarnation,
                scratch=checkpoint.parent,
                ours=not self._layers.stores,
                interval_s=self._layers.interval,
            )
            self._backup.start()
        self._backup.offer(epoch)

    def close(self) -> None:
        """Stop shipping this checkpoint."""
        if self._backup is not None:
            self._backup.close()
            self._backup = None

    def restore(self, target: Path) -> Standing:
        """Assemble the newest safe point."""
        return restore(self._name, None, self._stores(), self._context.keeper, target)

    def follow(self, root: Path) -> None:
        """Restore each safe point as it comes, in the background: ``root/checkpoint`` is the newest."""
        self._following = threading.Event()
        threading.Thread(
            target=self._follow, args=(root, self._following), name=f"layers-{self._name}", daemon=True
        ).start()

    def stop_following(self) -> None:
        """From now on ``root/checkpoint`` stays what it is."""
        with self._swap:
            self._following.set()

    def _follow(self, root: Path, over: threading.Event) -> None:
        have: dict[Entry, Path] = {}
        told = ""
        while not over.is_set():
            try:
                newest = self._context.keeper.safe_point(self._name)
                if newest is not None and newest.epoch > self.restored:
                    have = self._restore_next(root, have, over)
            except Exception as error:
                # Taking over starts from what there is; that it lags is for people to see, once a reason.
                if (why := str(error)) != told and self._tell(why):
                    told = why
            over.wait(max(self._layers.interval, FOLLOW_S_MIN))

    def _restore_next(self, root: Path, have: dict[Entry, Path], over: threading.Event) -> dict[Entry, Path]:
        coming = root / "coming"
        if coming.exists():
            shutil.rmtree(coming)
        keeper = self._context.keeper
        stand, files = restore_onto(have, self._name, None, self._stores(), keeper, coming)
        with self._swap:
            if over.is_set():
                return have
            if (root / "checkpoint").exists():
                os.rename(root / "checkpoint", root / "gone")
            os.rename(coming, root / "checkpoint")
            self.restored = stand.epoch
        shutil.rmtree(root / "gone", ignore_errors=True)
        return {entry: root / "checkpoint" / path.relative_to(coming) for entry, path in files.items()}

    def _tell(self, why: str) -> bool:
        try:
            self._context.keeper.event(
                "standby_lags", self._name, reason=why[:500], incarnation=self._context.incarnation
            )
        except RekindleError as error:
            log.warning("the standby of %s lags (%s), and the keeper cannot be told: %s", self._name, why, error)
            return False
        return True

    def _stores(self) -> list[Store]:
        """Opened once."""
        if self._opened is None:
            home = self._context.home
            self._opened = open_stores(self._layers.stores or (str(home.root / HOME_STORE),), home)
        return self._opened
