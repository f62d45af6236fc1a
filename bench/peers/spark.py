"""Plain Structured Streaming with a checkpoint and a parent that starts it again as soon as it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from bench._ending import END_S, end_session, session
from bench.peers.base import ROOT, Peer, PeerFailed, Place, folder_bytes

IDLE_S = 300


class Spark(Peer):
    """bench/plain_spark.py. ``query`` says which one: its options of the command line."""

    def __init__(self, name: str, place: Place, query: list[str]) -> None:
        super().__init__(name, place)
        self._query = query
        self._times: dict[str, int] = {}
        self._killed = 0
        self._deaths = 0
        self._ending = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = threading.Thread(target=self._tend, name="parent", daemon=True)

    def start(self) -> None:
        self._parent.start()

    def close(self) -> None:
        with self._lock:
            self._ending = True
            process = self._process
        if process is not None:
            end_session(process)
        self._parent.join(END_S)

    def check(self) -> None:
        if self._deaths > self._killed:
            raise PeerFailed(f"{self.name} ended by itself\n{self.story()}")

    def redundant(self) -> bool:
        return self._process is not None and self._process.poll() is None and self._deaths == self._killed

    def recovery_bytes(self) -> Mapping[str, int]:
        return {"checkpoint": folder_bytes(self.run / "checkpoint")}

    def has_taken(self, files: int) -> bool:
        return files_taken(self.run / "checkpoint") >= files

    def _appeared(self) -> Iterable[tuple[str, float, list[Path]]]:
        """A batch is there when Spark says so by _SUCCESS. When one is run again its folder is made anew."""
        if not self.output.exists():
            return
        names = sorted(entry.name for entry in os.scandir(self.output) if entry.name.startswith("batch="))
        newest = max(self._times, default="")
        for name in names:
            if name < newest:
                continue
            folder = self.output / name
            try:
                changed_ns = (folder / "_SUCCESS").stat().st_ctime_ns
            except FileNotFoundError:
                continue
            if self._times.get(name) != changed_ns:
                self._times[name] = changed_ns
                yield name, changed_ns / 1e9, sorted(folder.glob("part-*.parquet"))

    def _there(self, name: str) -> bool:
        return (self.output / name / "_SUCCESS").exists()

    def aim(self) -> list[psutil.Process]:
        assert self._process is not None
        self._killed += 1
        return session(self._process.pid)

    def _command(self) -> list[str]:
        folders = [self.place.source, self.output, self.run / "checkpoint", self.run / "log"]
        script = [sys.executable, str(ROOT / "bench" / "plain_spark.py"), *map(str, folders), *self._query]
        return [*script, "--cores", str(self.place.cores), "--files-per-batch", str(self.place.files_max),
                "--idle-s", str(IDLE_S)]  # fmt: skip

    def _tend(self) -> None:
        while True:
            with self._lock:
                if self._ending or self._deaths > self._killed:
                    return
                process = self._launch(self._command())
                self._process = process
            process.wait()
            self._deaths += 1


def files_taken(checkpoint: Path) -> int:
    """How many input files the committed batches have read, by the logs of Spark's file sources."""
    commits = {int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")}
    offsets = {int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")}
    if not offsets or max(offsets) not in commits:  # a batch is under way
        return 0
    taken: set[str] = set()
    for log in (checkpoint / "sources").glob("*/[0-9]*"):
        taken.update(json.loads(line)["path"] for line in log.read_text().splitlines()[1:])
    return len(taken)


def workload_query(name: str, parameters: Mapping[str, Any], *, tuned: bool) -> list[str]:
    """The query of a workload, as options of bench/plain_spark.py."""
    said = ["--workload", name, "--parameters", json.dumps(dict(parameters))]
    return [*said, "--tuned"] if tuned else said
