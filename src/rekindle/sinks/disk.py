"""The few steps by which a file sink touches the disk, as one object, so that tests can make any of them fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from rekindle.home import fsync_folder


class Disk:
    """What is written is durable once ``sync`` (a file) or ``sync_folder`` (the names in it) returned."""

    def make_folder(self, folder: Path) -> None:
        os.mkdir(folder)

    def write(self, file: Path, chunks: Iterable[bytes]) -> None:
        with open(file, "xb") as out:
            for chunk in chunks:
                out.write(chunk)

    def copy(self, source: Path, file: Path) -> None:
        shutil.copyfile(source, file)

    def sync(self, file: Path) -> None:
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_folder(self, folder: Path) -> None:
        fsync_folder(folder)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def remove_tree(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # what is left over is hidden, and removed at the next open
