"""Faults between nodes and the keeper: a server that restarts, a network that is cut. See ``faults`` for the model.

The network is a proxy on loopback in front of the server. While it is cut for a process, what comes is held back, as
TCP does with what is not acknowledged, and arrives when it heals.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType

import psutil

from rekindle.errors import RekindleError
from rekindle.supervisor.processes import start_ticks
from rekindle.verify.faults import NotInjected
from rekindle.verify.faults_processes import any_node, is_over
from rekindle.verify.postgres import PostgresServer
from rekindle.verify.trial import Trial

TO, FROM = "to", "from"
NOTICED_S = 45.0
HEALED_S = 45.0
HELD_LOOK_S = 0.01
CHUNK = 1 << 16


def restart_keeper(trial: Trial, pick: float, server: PostgresServer) -> str:
    before = server.pid
    if pick < 0.5:
        server.stop()
    else:
        server.kill()
    away_s = 0.5 + 4 * (pick % 0.5)
    time.sleep(away_s)
    server.start()
    how = "stopped" if pick < 0.5 else "killed"
    return f"server {before} was {how}, and away for {away_s:.1f} s; now it is {server.pid}"


def cut(trial: Trial, pick: float, proxy: Proxy, directions: Collection[str], lease_s: float) -> str:
    member = any_node(trial, pick)
    pids = set(trial.processes_of(member))
    connections = proxy.connections_of(pids)
    if not connections:
        raise NotInjected(f"{member.node} had no connection to the keeper")
    proxy.cut(pids, directions)
    try:
        fenced = trial.until(lambda: is_over(trial, member), lease_s + NOTICED_S)
    finally:
        held = proxy.heal()
    if not fenced:
        raise RekindleError(f"node {member.node!r} could not reach the keeper, and nobody noticed")
    if not trial.until(lambda: start_ticks(member.pid) != member.pid_started, HEALED_S):
        raise RekindleError(f"node {member.node!r} was fenced while it was cut off, and goes on now that it is not")
    return (
        f"{connections} connections of incarnation {member.incarnation} of {member.node}, {held} bytes held back; "
        "its lease ran out, and it ended by itself"
    )


@dataclass(slots=True)
class _Connection:
    client: socket.socket
    server: socket.socket
    pid: int | None
    over: bool = False


@dataclass(slots=True)
class Proxy:
    """Listens on loopback, and passes on to ``port``. A context."""

    port: int
    _listener: socket.socket = field(init=False)
    _connections: list[_Connection] = field(default_factory=list)
    _cut: frozenset[int] = frozenset()
    _directions: frozenset[str] = frozenset()
    _held: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Proxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        self._listener.close()
        for connection in list(self._connections):
            _close(connection)

    @property
    def own_port(self) -> int:
        return int(self._listener.getsockname()[1])

    def connections_of(self, pids: Collection[int]) -> int:
        return sum(not one.over and one.pid in pids for one in list(self._connections))

    def cut(self, pids: Collection[int], directions: Collection[str]) -> None:
        """From now on nothing passes for these processes in these directions: 'to' the server, 'from' it."""
        self._held = 0
        self._directions = frozenset(directions)
        self._cut = frozenset(pids)

    def heal(self) -> int:
        """Everything passes again; how many bytes had been held back."""
        self._cut, self._directions = frozenset(), frozenset()
        return self._held

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, address = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.port), timeout=5)
            except OSError:
                client.close()  # the server is away, and so is the proxy
                continue
            server.settimeout(None)
            connection = _Connection(client, server, _owner(address[1]))
            self._connections.append(connection)
            for source, target, direction in ((client, server, TO), (server, client, FROM)):
                pump = self._pump(connection, source, target, direction)
                threading.Thread(target=pump, name=f"proxy {direction}", daemon=True).start()

    def _pump(
        self, connection: _Connection, source: socket.socket, target: socket.socket, direction: str
    ) -> Callable[[], None]:
        def run() -> None:
            try:
                while content := source.recv(CHUNK):
                    if self._holds(connection, direction):
                        self._held += len(content)
                        while self._holds(connection, direction) and not self._over.wait(HELD_LOOK_S):
                            continue
                    target.sendall(content)
                while self._holds(connection, direction) and not self._over.wait(HELD_LOOK_S):
                    continue  # a goodbye does not pass either
            except OSError:
                pass  # one side is gone: the other one is told below
            _close(connection)

        return run

    def _holds(self, connection: _Connection, direction: str) -> bool:
        return direction in self._directions and connection.pid in self._cut


def _close(connection: _Connection) -> None:
    connection.over = True
    for end in (connection.client, connection.server):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # it was closed already
        finally:
            end.close()


def _owner(port: int) -> int | None:
    """The process that has this end of a connection on loopback."""
    for one in psutil.net_connections("tcp4"):
        if one.laddr and one.laddr.port == port and one.pid is not None:
            return int(one.pid)
    return None
