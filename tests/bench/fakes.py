"""A peer that is a small script: it copies each input file into an output folder of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from subprocess import Popen

import psutil

from bench._ending import end_session, session
from bench.peers.base import Peer, PeerFailed, Place

SCRIPT = """
import os, shutil, sys, time
source, output = sys.argv[1:]
os.makedirs(output, exist_ok=True)
while True:
    for name in sorted(os.listdir(source)):
        folder = os.path.join(output, "out=" + name)
        if not os.path.exists(folder):
            hidden = os.path.join(output, "." + name)
            os.makedirs(hidden, exist_ok=True)
            shutil.copy(os.path.join(source, name), os.path.join(hidden, "part-0.parquet"))
            os.rename(hidden, folder)
    time.sleep(0.01)
"""


class Copier(Peer):
    """Started again when it was killed."""

    quiet_s = 0.2

    def __init__(self, place: Place, script: str = SCRIPT) -> None:
        super().__init__("copier", place)
        self._script = script
        self._process: Popen[bytes] | None = None
        self._killed: set[int] = set()

    def start(self) -> None:
        command = [sys.executable, "-I", "-c", self._script, str(self.place.source / "rows"), str(self.output)]
        self._process = self._launch(command)

    def close(self) -> None:
        if self._process is not None:
            end_session(self._process)

    def check(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            return
        if self._process.pid not in self._killed:
            raise PeerFailed(f"it ended by itself\n{self.story()}")
        self.start()

    def redundant(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None and self._process.pid not in self._killed

    def recovery_bytes(self) -> Mapping[str, int]:
        return {"nothing": 1}

    def _appeared(self) -> Iterable[tuple[str, float, list[Path]]]:
        if self.output.exists():
            for entry in sorted(os.scandir(self.output), key=lambda entry: entry.name):
                if entry.name.startswith("out=") and entry.name not in self.sight.newest:
                    yield entry.name, entry.stat().st_ctime, sorted(Path(entry.path).iterdir())

    def _there(self, name: str) -> bool:
        return (self.output / name).exists()

    def aim(self) -> list[psutil.Process]:
        assert self._process is not None
        self._killed.add(self._process.pid)
        return session(self._process.pid)
