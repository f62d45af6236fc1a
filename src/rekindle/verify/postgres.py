"""A real PostgreSQL to try things with: a cluster of its own, on loopback, gone afterwards.

with PostgresServer() as server: ... server.url ...
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import psutil
import psycopg
from psycopg import sql

USER = "rekindle_tester"
DATABASE = "postgres"
START_S = 60.0
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
autovacuum_naptime = 10s
"""


class PostgresMissing(Exception):
    """There are no PostgreSQL server programs on this machine."""


class PostgresServer:
    """One cluster in a temporary folder. ``url`` stays the same over stops and starts."""

    def __init__(self, *, fsync: bool = True) -> None:
        self._fsync = fsync
        self._programs = _programs()
        self._account = _account()
        self._folder = Path(tempfile.mkdtemp(prefix="rekindle-postgres-"))
        self._data = self._folder / "data"
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.password = f"pw-{secrets.token_hex(8)}"
        self.port = _free_port()
        self.url = f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def __enter__(self) -> PostgresServer:
        try:
            self._init()
            self.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.destroy()

    @property
    def pid(self) -> int | None:
        """The postmaster's process, if it runs."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        if self._process is not None:
            return
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_account(),  # type: ignore[call-overload]
            )
        deadline = time.monotonic() + START_S
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """A fast shutdown: open transactions are broken off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL of the postmaster; its children notice and go, and only then this returns."""
        self._end(signal.SIGKILL)

    def database(self, name: str) -> str:
        """Make an empty database; its address."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url.removesuffix(DATABASE) + name

    def restart(self) -> None:
        self.stop()
        self.start()

    def destroy(self) -> None:
        """End the server and remove its folder."""
        self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(START_S)
        _, alive = psutil.wait_procs(children, timeout=10)
        for child in alive:
            child.kill()
        psutil.wait_procs(alive, timeout=10)
        self._process = None

    def _init(self) -> None:
        if self._account is not None:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        password_file = self._folder / "password"
        password_file.write_text(self.password)
        if self._account is not None:
            os.chown(password_file, self._account.pw_uid, self._account.pw_gid)
        command = [str(self._programs / "initdb"), "-D", str(self._data), "-U", USER, "--auth=scram-sha-256"]
        command += [f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        self._run(command)
        with open(self._data / "postgresql.conf", "a", encoding="utf-8") as config:
            config.write(f"{SETTINGS}port = {self.port}\nfsync = {'on' if self._fsync else 'off'}\n")

    def _ready(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-d", DATABASE]
        return subprocess.run(command, check=False, cwd="/").returncode == 0

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_account())  # type: ignore[call-overload]
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")

    def _as_account(self) -> dict[str, object]:
        """Arguments of Popen: PostgreSQL refuses to run as root, and wants a folder it may stand in."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        options: dict[str, object] = {"cwd": self._folder, "env": {**environment, "LC_ALL": "C"}}
        if self._account is not None:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options


def _programs() -> Path:
    """The folder of the server programs: all of one version, the newest if there are several."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []

    def version(folder: Path) -> tuple[int, ...]:
        return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())

    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "pg_isready")):
            return folder
    raise PostgresMissing(
        "no PostgreSQL server programs (initdb, postgres, pg_isready) were found on the PATH or in /usr/lib/postgresql"
    )


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresMissing("PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
