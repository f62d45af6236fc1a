"""The network between nodes and the keeper, as the proxy makes it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from rekindle.verify.faults_keeper import FROM, TO, Proxy

QUIET_S = 0.2
HERE = os.getpid()


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(one,), daemon=True).start()

    def answer(one: socket.socket) -> None:
        with one:
            while content := one.recv(100):
                one.sendall(content.upper())

    threading.Thread(target=serve, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def arrives(client: socket.socket) -> bytes:
    client.settimeout(QUIET_S)
    try:
        return client.recv(100)
    except TimeoutError:
        return b""
    finally:
        client.settimeout(10)


def test_it_passes_on_both_ways(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"HELLO"
        assert proxy.connections_of({HERE}) == 1 and proxy.connections_of({1}) == 0


@pytest.mark.parametrize("directions", [(TO,), (FROM,), (TO, FROM)])
def test_what_is_held_back_arrives_when_it_heals(echo: int, directions: tuple[str, ...]) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10) as client:
        client.sendall(b"before")
        assert client.recv(100) == b"BEFORE"
        proxy.cut({HERE}, directions)
        client.sendall(b"during")
        assert arrives(client) == b""
        assert proxy.heal() == 6
        assert client.recv(100) == b"DURING"


def test_only_those_who_are_named_are_cut_off(echo: int) -> None:
    with Proxy(echo) as proxy, socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10) as client:
        client.sendall(b"one")
        assert client.recv(100) == b"ONE"
        proxy.cut({1}, (TO, FROM))
        client.sendall(b"two")
        assert client.recv(100) == b"TWO"


def test_a_server_that_is_away_is_away_behind_the_proxy_too(echo: int) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = int(unused.getsockname()[1])
    with Proxy(port) as proxy, socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10) as client:
        assert client.recv(100) == b""


def test_one_that_hangs_up_is_told_to_the_other(echo: int) -> None:
    with Proxy(echo) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10)
        client.sendall(b"x")
        assert client.recv(1) == b"X"
        client.close()
        with socket.create_connection(("127.0.0.1", proxy.own_port), timeout=10) as other:
            other.sendall(b"y")
            assert other.recv(1) == b"Y"
