"""A Rekindle pipeline under a policy. Its nodes are found through the keeper."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench._ending import end_rekindle, session
from bench._place import NODES
from bench.peers.base import Peer, PeerFailed, Place, folder_bytes
from rekindle.home import open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Incarnation, Member
from rekindle.node.worker import COMPUTING, STANDBY
from rekindle.recovery.placement import in_pool

FOR_S = 3600
HOME_S = 60.0
CHECK_S = 1.0
LAG_MAX = 5  # epochs; a report is up to a heartbeat old


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The file, the stream in it whose sink is measured, the policy, and what the file finds in its environment."""

    file: Path
    stream: str
    policy: str
    environment: Mapping[str, str]


class Rekindle(Peer):
    def __init__(self, name: str, place: Place, pipeline: Pipeline) -> None:
        super().__init__(name, place)
        self.pipeline = pipeline
        self._home = self.run / "home"
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: Keeper | None = None
        self._killed: set[Incarnation] = set()
        self._asked_s = 0.0

    def start(self) -> None:
        script = [sys.executable, "-m", "rekindle", "run", str(self.pipeline.file), "--json"]
        options = ["--home", str(self._home), "--for", f"{FOR_S}s", "--cores", str(self.place.cores)]
        self._process = self._launch([*script, *options])
        deadline_s = time.monotonic() + HOME_S
        while not (self._home / "home.json").exists():
            self.check()
            if time.monotonic() > deadline_s:
                raise PeerFailed(f"{self.name} made no home\n{self.story()}")
            time.sleep(0.05)
        self._keeper = open_keeper(None, home=open_home(self._home))

    def close(self) -> None:
        if self._process is not None:
            end_rekindle(self._process, self._home)
        if self._keeper is not None:
            self._keeper.close()

    def check(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise PeerFailed(f"{self.name} ended by itself\n{self.story()}")
        if self._keeper is not None and time.monotonic() - self._asked_s > CHECK_S:
            self._asked_s = time.monotonic()
            failures = self._keeper.failures()
            if failures:
                raise PeerFailed(f"{self.name}: {failures[0].subject} has failed\n{self.story()}")

    def redundant(self) -> bool:
        live = self.keeper.members()
        head = self.keeper.head(self.pipeline.stream)
        return (
            len(live) >= NODES.get(self.pipeline.policy, 1)
            and not any(member.incarnation in self._killed for member in live)
            and all(member.report.get("phase") == "ready" and self._in_place(member, head) for member in live)
        )

    def lose_disk(self) -> None:
        """The checkpoints of the dead nodes go; streams, layers and keeper stay, as they would elsewhere."""
        for incarnation in self._killed:
            for folder in open_home(self._home).work.glob(f"*/{incarnation}-*"):
                shutil.rmtree(folder)

    def recovery_bytes(self) -> Mapping[str, int]:
        home = open_home(self._home)
        keeper = sum(path.stat().st_size for path in home.root.glob(f"{home.keeper_file.name}*"))
        return {
            "streams": folder_bytes(home.streams),
            "checkpoints": folder_bytes(home.work),
            "layers": folder_bytes(home.root / "backup"),
            "keeper": keeper,
        }

    def account(self) -> tuple[int, int]:
        """By its own record: how many rows of the source ``rows`` were computed, and how many were dropped."""
        sizes = {int(epoch.epoch): epoch.output.rows for epoch in self.keeper.epochs("rows", after=0)}
        dropped = {int(e.epoch): e.output.dropped for e in self.keeper.epochs(self.pipeline.stream, after=0)}
        computed = 0
        for claim in self.keeper.claims(self.pipeline.stream):
            if claim.epoch in dropped and dropped[claim.epoch] is None:
                span = claim.spans["rows"]
                computed += sum(sizes[epoch] for epoch in range(span.after + 1, span.through + 1))
        return computed, sum(rows for rows in dropped.values() if rows is not None)

    def events(self) -> list[tuple[float, str, str]]:
        return [(event.at_s, event.kind, event.subject) for event in self.keeper.events()]

    def story(self) -> str:
        if self._keeper is None:
            return super().story()
        stream = self.pipeline.stream
        members = [f"{m.node} {m.incarnation} {m.state} {dict(m.report)}" for m in self._keeper.members()]
        failures = [str(failure) for failure in self._keeper.failures()]
        return "\n".join([super().story(), f"{stream} is at epoch {self._keeper.head(stream)}", *members, *failures])

    @property
    def keeper(self) -> Keeper:
        assert self._keeper is not None
        return self._keeper

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), **self.pipeline.environment}

    def _appeared(self) -> Iterable[tuple[str, float, list[Path]]]:
        if not self.output.exists():
            return
        for name in sorted(entry.name for entry in os.scandir(self.output)):
            if name.startswith("epoch=") and name not in self.sight.newest:
                folder = self.output / name
                # The time of the rename that showed it.
                yield name, folder.stat().st_ctime, sorted(folder.glob("part-*.parquet"))

    def _there(self, name: str) -> bool:
        return (self.output / name).exists()

    def aim(self) -> list[psutil.Process]:
        member = self._worker()
        self._killed.add(member.incarnation)
        found = session(member.pid)
        if member.report.get("jvm_pid") not in {process.pid for process in found}:
            raise PeerFailed(f"the JVM of {self.name} is not where its node says\n{member.report}")
        return found

    def _worker(self) -> Member:
        """Who computes alone, or who delivers where all compute."""
        live = {member.incarnation: member for member in self.keeper.members()}
        owners = self.keeper.owners()
        stream = self.pipeline.stream
        for subject in (stream, f"{stream}_sink", *sorted(owners)):
            if subject in owners and owners[subject].incarnation in live:
                return live[owners[subject].incarnation]
        if len(live) == 1:
            return next(iter(live.values()))
        raise PeerFailed(f"nobody owns the fragment of {self.name}\n{owners}")

    def _in_place(self, member: Member, head: int) -> bool:
        """Whether a node could take over: warm in the pool, with layers restored, or computing and not behind."""
        if in_pool(member.node):
            return True
        said = member.report.get("replicas", {}).get(self.pipeline.stream, {})
        if said.get("role") == STANDBY:
            return bool(said["epoch"] > 0)
        return bool(said.get("role") == COMPUTING and said["epoch"] >= head - LAG_MAX)
