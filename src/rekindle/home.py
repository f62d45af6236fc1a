"""The home: the one folder that holds everything a pipeline leaves on disk.

In it:

    home.json     version, the pipeline's name, the home's id, the keeper's address without its secrets
    keeper.db     the embedded keeper
    supervisor.lock
    streams/      segments, one folder an epoch
    work/         what replicas compute in: checkpoints, inboxes; can be rebuilt from the rest, but for
                  work/NAME/source, the checkpoint of a Spark source: it alone knows what was read
    logs/         one file an incarnation
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import HomeInUse, HomeUnusable

HOME_VERSION = 1
DISK_FREE_MIN = 16 * 1024 * 1024
ODD = re.compile(r"[*?\[\]{}:\\]")  # Spark's file source would look for other folders, and find nothing


@dataclass(frozen=True, slots=True)
class Home:
    """An opened home. Paths given out here are absolute and stay inside ``root``."""

    root: Path
    pipeline: str
    id: str
    keeper_url: str  # without a password

    @property
    def streams(self) -> Path:
        return self.root / "streams"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def keeper_file(self) -> Path:
        return self.root / "keeper.db"

    def is_full(self) -> bool:
        """Whether so little is free on its disk that work has to wait."""
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize < DISK_FREE_MIN

    def inside(self, relative: str) -> Path:
        """The absolute path of something in the home. Refuses a path that leads out of it."""
        path = self.root / relative
        if Path(relative).is_absolute() or ".." in Path(relative).parts:
            raise HomeUnusable(f"the path {relative!r} leads out of the home", detail=str(self.root))
        return path


def create_or_open(root: Path, pipeline: str, keeper_url: str | None) -> Home:
    """Open the home at ``root`` for ``pipeline``; make it if there is none."""
    root = root.resolve()
    odd = ODD.search(str(root))
    if odd is not None:
        raise HomeUnusable(
            f"the path of the home has {odd[0]!r} in it, which Spark takes for a pattern",
            detail=str(root),
            hint="choose a path without any of * ? [ ] { } : and backslash",
        )
    if (root / "home.json").exists():
        home = open_home(root)
        if home.pipeline != pipeline:
            raise HomeUnusable(
                f"the home belongs to the pipeline {home.pipeline!r}, not to {pipeline!r}",
                detail=str(root),
                hint="give every pipeline a home of its own with --home",
            )
        if keeper_url is not None and without_password(keeper_url) != home.keeper_url:
            raise HomeUnusable(
                "the home was made with another keeper",
                detail=f"{root} has its records in {home.keeper_url}",
                hint="give the same --keeper as before, or another --home",
            )
        return home
    try:
        if root.exists() and not all(_is_begun(entry) for entry in root.iterdir()):
            raise HomeUnusable(
                "the folder is not empty and is not a Rekindle home",
                detail=str(root),
                hint="give an empty or a new folder with --home",
            )
        for folder in (root, root / "streams", root / "work", root / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(
            f"the home cannot be made: {error.strerror}", detail=str(root), hint="choose a folder you may write to"
        ) from error
    record = {
        "version": HOME_VERSION,
        "pipeline": pipeline,
        "id": uuid.uuid4().hex,
        "keeper": without_password(keeper_url or "sqlite"),
    }
    durable_create(root / "home.json", json.dumps(record, indent=1).encode())
    return create_or_open(root, pipeline, keeper_url)  # somebody else may have been faster


def _is_begun(entry: Path) -> bool:
    """Whether this is what somebody leaves who dies while he makes a home."""
    if entry.name in ("streams", "work", "logs"):
        return entry.is_dir() and not any(entry.iterdir())
    return entry.name.startswith(".home.json.")


def open_home(root: Path) -> Home:
    """Open an existing home."""
    root = root.resolve()
    try:
        record = json.loads((root / "home.json").read_text())
        version, pipeline, home_id = record["version"], record["pipeline"], record["id"]
        keeper_url = record["keeper"]
    except FileNotFoundError:
        raise HomeUnusable(
            "there is no Rekindle home here", detail=str(root), hint="'rekindle run FILE --home DIR' makes one"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HomeUnusable(f"home.json cannot be read: {error}", detail=str(root)) from error
    if version > HOME_VERSION:
        raise HomeUnusable(
            f"the home was made by a newer Rekindle (home version {version}, this one knows {HOME_VERSION})",
            detail=str(root),
            hint="upgrade: pip install --upgrade rekindle",
        )
    return Home(root, pipeline, home_id, keeper_url)


class HomeLock:
    """Held by the one supervisor of a home. The kernel lets go of it when its process dies."""

    def __init__(self, home: Home) -> None:
        self._fd = os.open(home.root / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise HomeInUse(
                f"another run is on this home (process {holder or 'unknown'})",
                detail=str(home.root),
                hint="wait for it, stop it with Ctrl-C, or give another --home",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def without_password(url: str) -> str:
    """One address, fit for records and logs. What stands between the user's name and the last '@' goes, also where
    a password holds characters that should have been escaped.
    """
    bare = re.sub(r"(://[^/@:\s]*):\S*@", r"\1@", url)
    return re.sub(r"(?:([?])|&)(?:ssl)?password=[^&\s]*&?", r"\1", bare)


def durable_create(path: Path, content: bytes) -> None:
    """Write a small file unless there is one: of those who try at the same time the first wins. It is there whole,
    or not at all, also after a power cut.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except OSError:  # there is one, or the file system has no links
        if not path.exists():
            os.rename(temporary, path)
    temporary.unlink(missing_ok=True)
    fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
