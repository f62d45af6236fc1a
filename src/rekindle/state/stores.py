"""A store: a directory, or any place that fsspec reaches by URL, where copies of checkpoints are kept.

Fault model. A store may be away, refuse, be full, lose or damage what it has, or hang; whatever it raises becomes
StoreFailed. What ``put`` returned from is there whole: on a local disk it is synced, an object store promises it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from rekindle.errors import DeclarationError
from rekindle.home import Home, fsync_folder, without_password

RENAMES = frozenset({"file", "local", "memory", "sftp", "ssh", "hdfs", "webhdfs", "smb"})
"""Where a file shows while it is written, so it gets a temporary name first. The others show it when it is whole."""


class StoreFailed(Exception):
    """The store ``store`` did not do what it was asked."""

    def __init__(self, store: str, what: str) -> None:
        super().__init__(f"{store}: {what}")
        self.store = store


def open_stores(urls: Sequence[str], home: Home) -> list[Store]:
    """The stores of a home. Raises DeclarationError for a place that no file system is known for, or named twice."""
    stores = []
    for url in urls:
        try:
            stores.append(Store(url, f"{home.pipeline}-{home.id}"))
        except (ValueError, ImportError) as error:
            raise DeclarationError(
                f"the store {without_password(url)!r} cannot be used",
                detail=str(error),
                hint="give a directory, or a URL of a file system that fsspec has a driver installed for",
            ) from error
    check_stores(stores)
    return stores


def check_stores(stores: Sequence[Store], copies: int = 1) -> None:
    """Raise DeclarationError unless ``copies`` copies can go to different stores."""
    names = [store.name for store in stores]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(f"the store {twice[0]!r} is named twice")
    if not 1 <= copies <= len(stores):
        raise DeclarationError(
            f"{copies} copies cannot be kept in {len(stores)} stores",
            hint="name as many stores as there shall be copies, or more",
        )


class Store:
    """``name`` is its place without passwords: that is what goes on record, and it must stay the same.

    Everything is kept in a folder named ``owner`` there, so that several homes can share a place.
    """

    def __init__(self, url: str, owner: str, options: Mapping[str, Any] | None = None) -> None:
        self.name = without_password(url)
        self._fs, root = fsspec.core.url_to_fs(url, **(options or {}))
        self._root = f"{root.rstrip('/')}/{owner}"
        self._local = isinstance(self._fs, LocalFileSystem)
        protocols = (self._fs.protocol,) if isinstance(self._fs.protocol, str) else self._fs.protocol
        self._renames = not RENAMES.isdisjoint(protocols)

    def __repr__(self) -> str:
        return f"Store({self.name!r})"

    def prepare(self) -> None:
        """Make the store's own folder. Only here: a disk that is not mounted must not be taken for an empty store."""
        with self._speaking():
            self._fs.makedirs(self._root, exist_ok=True)

    def put(self, name: str, chunks: Iterable[bytes], size: int) -> None:
        """Write an object of ``size`` bytes, in place of an older one. What ``chunks`` raises is not the store's."""
        path = self._path(name)
        temporary = self._temporary(path)
        with self._speaking():
            if self._renames and not self._fs.isdir(self._root):
                raise FileNotFoundError(f"the store's folder {self._root} is not there")
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            out = self._fs.open(temporary, "wb")
        try:
            for chunk in chunks:
                with self._speaking():
                    out.write(chunk)
            with self._speaking():
                if self._local:
                    out.flush()
                    os.fsync(out.fileno())
        except BaseException:
            self._abandon(out, temporary)
            raise
        with self._speaking():
            out.close()
            if temporary != path:
                if self._local:
                    os.replace(temporary, path)
                else:
                    self._fs.mv(temporary, path)
        found = self.size(name)
        if found != size:
            raise StoreFailed(self.name, f"{name} has {found} bytes after {size} were written")

    def settle(self, folder: str) -> None:
        """Make the names in a folder durable, where that is ours to do. Called once, after the puts into it."""
        if self._local:
            path = self._path(folder)
            with self._speaking():
                while len(path) >= len(self._root):
                    fsync_folder(Path(path))
                    path = path.rpartition("/")[0]

    def size(self, name: str) -> int | None:
        """The size of an object, None if it is not there."""
        with self._speaking():
            try:
                self._fs.invalidate_cache()
                return int(self._fs.info(self._path(name))["size"])
            except FileNotFoundError:
                return None

    def read(self, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> Generator[bytes, None, None]:
        """The whole object, or the parts (offset, size) of it, in order; a part that is cut comes out short."""
        with self._speaking():
            file = self._fs.open(self._path(name), "rb")
        try:
            if ranges is None:
                with self._speaking():
                    content = file.read()
                yield content
            else:
                for offset, size in ranges:
                    with self._speaking():
                        file.seek(offset)
                        content = file.read(size)
                    yield content
        finally:
            file.close()

    def sizes(self, folder: str) -> dict[str, int]:
        """Every object below ``folder`` and its size, half-written ones too."""
        with self._speaking():
            self._fs.invalidate_cache()
            path = self._path(folder)
            if not self._fs.exists(path):
                return {}
            found = self._fs.find(path, detail=True)
            return {name[len(self._root) + 1 :]: int(found[name]["size"]) for name in sorted(found)}

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects, and the folders that are empty then. What is gone already is fine."""
        with self._speaking():
            for name in names:
                try:
                    self._fs.rm_file(self._path(name))
                except FileNotFoundError:
                    continue
            for folder in {self._path(name).rpartition("/")[0] for name in names}:
                if self._renames and self._fs.isdir(folder) and not self._fs.ls(folder, detail=False):
                    self._fs.rmdir(folder)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _temporary(self, path: str) -> str:
        if not self._renames:
            return path
        folder, _, name = path.rpartition("/")
        return f"{folder}/.{name}.{os.getpid()}.tmp"

    def _abandon(self, out: Any, temporary: str) -> None:
        with self._speaking():
            if self._renames:
                out.close()
                if self._fs.exists(temporary):
                    self._fs.rm_file(temporary)
            elif hasattr(out, "discard"):
                out.discard()
                out.closed = True  # the collector would otherwise close it, which shows what was written

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        # Each kind of store has exceptions of its own; all that matters here is that this store did not do it.
        try:
            yield
        except StoreFailed:
            raise
        except Exception as error:
            raise StoreFailed(self.name, f"{type(error).__name__}: {error}") from error
