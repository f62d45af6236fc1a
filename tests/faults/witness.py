"""A witness sees every epoch as it is published and delivered, and tells afterwards what was changed or lost."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

from rekindle.errors import KeeperUnavailable
from rekindle.home import Home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.records import Epoch

LOOK_S = 0.05


class Witness:
    """Looks from a thread of its own until ``changed`` is asked."""

    def __init__(self, home: Home, keeper_url: str | None, out: Path) -> None:
        self._home = home
        self._keeper_url = keeper_url
        self._out = out
        self._over = threading.Event()
        self.epochs: dict[tuple[str, int], Epoch] = {}
        self.folders: dict[Path, str] = {}
        self._thread = threading.Thread(target=self._look, name="witness", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def changed(self) -> list[str]:
        """What is not as it was when it was first seen."""
        self.close()
        found = []
        keeper = self._open()
        try:
            for (stream, epoch), seen in self.epochs.items():
                now = keeper.epoch(stream, seen.epoch)
                if now != seen:
                    found.append(f"epoch {epoch} of {stream} was {seen}, is {now}")
        finally:
            keeper.close()
        for folder, digest in self.folders.items():
            if _content(folder) != digest:
                found.append(f"{folder} was changed after it was delivered")
        return found

    def _open(self) -> Keeper:
        return open_keeper(self._keeper_url, home=self._home, clock=time.time, patience_s=60.0)

    def _look(self) -> None:
        keeper = self._open()
        heads: dict[str, int] = {}
        try:
            while not self._over.wait(LOOK_S):
                try:
                    self._see(keeper, heads)
                except KeeperUnavailable:
                    continue  # it looks again: an absent keeper changes nothing
        finally:
            keeper.close()

    def _see(self, keeper: Keeper, heads: dict[str, int]) -> None:
        for stream in keeper.streams():
            for epoch in keeper.epochs(stream, after=heads.get(stream, 0)):
                self.epochs[stream, epoch.epoch] = epoch
                heads[stream] = epoch.epoch
        for folder in self._out.glob("*/epoch=*"):
            if folder not in self.folders:
                self.folders[folder] = _content(folder)


def _content(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
