"""Apache Flink: a standalone cluster of one job manager and two task managers, and a parent that starts each of them
again as soon as it ends.

Checkpoints every second, exactly once; what the sink shows is committed by a checkpoint. Where the job manager dies,
the parent starts another one and submits the job again, from its last checkpoint.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from bench._ending import END_S, kill, session
from bench._workload import Workload
from bench.peers import flink_sql
from bench.peers.base import Peer, PeerFailed, Place, folder_bytes
from bench.peers.flink_home import FlinkHome, flink_home, java

JOB, TASKS = "job", tuple(f"task{number}" for number in range(1, flink_sql.TASK_MANAGERS + 1))
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
CLIENT = "org.apache.flink.table.client.SqlClient"
OPENED = ("java.lang", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.lang.reflect", "java.text", "java.time",
          "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")  # fmt: skip
LOGGING = """
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} - %m%n
"""
UP_S = 60.0
SUBMIT_S = 120.0
TEND_S = 0.05
ASK_S = 0.25
ASK_S_MAX = 2.0
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))
QUIET_S = 3.0


class Flink(Peer):
    """``dies`` is what a kill hits: a task manager, or the job manager."""

    quiet_s = QUIET_S

    def __init__(
        self,
        name: str,
        place: Place,
        workload: Workload,
        *,
        tuned: bool,
        say: Callable[[str], None],
        dies: str = TASKS[0],
        interval_s: float | None = None,
    ) -> None:
        super().__init__(name, place)
        self._workload = workload
        self._tuned = tuned
        self._say = say
        self._dies = dies
        self._interval_s = interval_s
        self._ports = dict(zip(("rpc", "rest"), _free_ports(2), strict=True))
        self._home: FlinkHome | None = None
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[int] = set()
        self._ids: dict[str, str] = {}
        self._lives = 0
        self._ending = threading.Event()
        self._failed = ""
        self._seen: set[str] = set()
        self._asked_s = 0.0
        self._ready = False
        self._parent = threading.Thread(target=self._tend, name="parent", daemon=True)

    def start(self) -> None:
        self._home = flink_home(self._say)
        for folder in ("conf", "tmp", "checkpoints"):
            (self.run / folder).mkdir()
        said = flink_sql.settings(self.run, self._ports, tuned=self._tuned, interval_s=self._interval_s)
        conf = "".join(f"{name}: {value}\n" for name, value in said.items())
        (self.run / "conf" / "config.yaml").write_text(conf)
        (self.run / "conf" / "log4j.properties").write_text(LOGGING)
        for name in (JOB, *TASKS):
            self._running[name] = self._launch(self._command(name))
        self._until(self._are_all_there, "come up")
        self._submit(None)
        self._parent.start()

    def close(self) -> None:
        self._ending.set()
        if self._parent.is_alive():
            self._parent.join(END_S)
        for process in self._running.values():
            if process.poll() is None:
                kill(session(process.pid))
                process.wait(END_S)

    def check(self) -> None:
        if self._failed:
            raise PeerFailed(f"{self.name}: {self._failed}\n{self.story()}")

    def has_begun(self) -> bool:
        return bool(self.look().all) or self.redundant()

    def redundant(self) -> bool:
        """All task managers are there and all tasks run."""
        if any(process.pid in self._killed for process in self._running.values()):
            return False
        if time.monotonic() - self._asked_s > ASK_S:
            self._asked_s = time.monotonic()
            self._ready = self._are_all_there() and self._tasks_run()
        return self._ready

    def recovery_bytes(self) -> Mapping[str, int]:
        return {"checkpoints": folder_bytes(self.run / "checkpoints")}

    def _appeared(self) -> Iterable[tuple[str, float, list[Path]]]:
        """A file is renamed to its name when its checkpoint is complete."""
        if not self.output.exists():
            return
        for entry in sorted(os.scandir(self.output), key=lambda entry: entry.name):
            if entry.name.startswith("part-") and entry.name not in self._seen:
                self._seen.add(entry.name)
                yield entry.name, entry.stat().st_ctime, [Path(entry.path)]

    def _there(self, name: str) -> bool:
        return (self.output / name).exists()

    def aim(self) -> list[psutil.Process]:
        process = self._running[self._dies]
        self._killed.add(process.pid)
        self._ready, self._asked_s = False, time.monotonic()
        return session(process.pid)

    # -- the cluster -------------------------------------------------------------------------------------

    def _command(self, name: str) -> list[str]:
        assert self._home is not None
        main = [JOB_MANAGER if name == JOB else TASK_MANAGER, "--configDir", str(self.run / "conf")]
        if name != JOB:
            self._lives += 1
            self._ids[name] = f"{name}-{self._lives}"
            main.append(f"-Dtaskmanager.resource-id={self._ids[name]}")
        return self._java(flink_sql.heap_flags(name), self._home.classpath, main)

    def _java(self, flags: list[str], classpath: str, main: list[str]) -> list[str]:
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        logging = f"-Dlog4j.configurationFile={self.run}/conf/log4j.properties"
        return [java(), *flags, *opens, logging, "-Duser.timezone=UTC", "-cp", classpath, *main]

    def _submit(self, checkpoint: Path | None) -> None:
        assert self._home is not None
        job = self.run / "job.sql"
        job.write_text(
            flink_sql.script(self._workload, self.place.source, self.output, tuned=self._tuned, checkpoint=checkpoint)
        )
        main = [CLIENT, "embedded", "-f", str(job), "-hist", str(self.run / "history")]
        try:
            done = subprocess.run(
                self._java(flink_sql.heap_flags(JOB), self._home.client_classpath, main),
                env={**self._environment(), "FLINK_CONF_DIR": str(self.run / "conf")},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SUBMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PeerFailed(f"{self.name} does not take the job within {SUBMIT_S:g} s\n{self.story()}") from None
        said = done.stdout + done.stderr
        if done.returncode != 0 or "[ERROR]" in said or "Job ID" not in said:
            raise PeerFailed(f"{self.name} does not take the job\n{_errors(said)}")

    def _tend(self) -> None:
        """The parent of all: what ended is started again; more than what was killed must not end."""
        while not self._ending.wait(TEND_S):
            for name, process in list(self._running.items()):
                if process.poll() is None:
                    continue
                if process.pid not in self._killed:
                    self._failed = f"the {name} manager ended by itself"
                    return
                self._running[name] = self._launch(self._command(name))
                if name == JOB:
                    try:
                        self._resubmit()
                    except PeerFailed as error:
                        self._failed = str(error)
                        return

    def _resubmit(self) -> None:
        self._until(self._are_all_there, "come up again")
        found = list((self.run / "checkpoints").glob("*/chk-*/_metadata"))
        newest = max(found, key=lambda path: path.stat().st_mtime_ns, default=None)
        self._submit(newest.parent if newest is not None else None)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + UP_S
        while not condition():
            ended = any(p.poll() is not None and p.pid not in self._killed for p in self._running.values())
            if ended or self._ending.is_set() or time.monotonic() > deadline_s:
                raise PeerFailed(f"{self.name} did not {what} within {UP_S:g} s\n{self.story()}")
            time.sleep(0.1)

    # -- its own view of itself --------------------------------------------------------------------------

    def _are_all_there(self) -> bool:
        """The task managers that live, and no dead one that is not missed yet."""
        listed = self._ask("/taskmanagers").get("taskmanagers", [])
        return sorted(one["id"] for one in listed) == sorted(self._ids.values())

    def _tasks_run(self) -> bool:
        jobs = self._ask("/jobs/overview").get("jobs", [])
        for job in jobs:
            if job["state"] == "FAILED" and not self._killed:
                self._failed = "the job failed"
            if job["state"] == "RUNNING" and job["tasks"]["running"] == job["tasks"]["total"]:
                return True
        return False

    def _ask(self, path: str) -> dict[str, Any]:
        address = f"http://127.0.0.1:{self._ports['rest']}{path}"
        try:
            with LOOPBACK.open(address, timeout=ASK_S_MAX) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (OSError, json.JSONDecodeError):  # it is not up, or going down
            return {}


def _errors(text: str) -> str:
    lines = [line for line in text.splitlines() if "ERROR" in line or "Caused by" in line or "Exception" in line]
    return "\n".join(lines[:8] or text.splitlines()[-8:])


def _free_ports(count: int) -> list[int]:
    """On loopback. They are free now; nobody keeps them for us."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
