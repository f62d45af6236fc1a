"""A wire to PostgreSQL that can be cut at COMMIT.

Fault model: the client's COMMIT is lost on its way ("before": the server rolls back), or it arrives and
its answer is lost ("after": the server has committed, the client cannot know). Nothing is ever altered.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Wire:
    """Listens on loopback and passes bytes on. ``cut`` arms it; ``cuts`` counts what was really cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._when: str | None = None
        self._then: Callable[[], None] = lambda: None
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, when: str, then: Callable[[], None] = lambda: None) -> None:
        """Cut the next COMMIT, 'before' or 'after' it reached the server, and call ``then``."""
        self._then = then
        self._when = when

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        cutting = threading.Event()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()  # the server is down: so is the wire
            return
        threading.Thread(target=self._answers, args=(server, client, cutting), daemon=True).start()
        try:
            while asked := client.recv(65536):
                if self._when is not None and b"COMMIT\0" in asked:
                    when, self._when = self._when, None
                    if when == "after":
                        cutting.set()
                        server.sendall(asked)
                        return  # _answers waits for the answer, drops it, and hangs up
                    self._hang_up(server, client)
                    return
                server.sendall(asked)
        except OSError:
            pass  # either end went away: the finally below tells the other
        finally:
            if not cutting.is_set():
                _close(server, client)

    def _answers(self, server: socket.socket, client: socket.socket, cutting: threading.Event) -> None:
        try:
            while answer := server.recv(65536):
                if cutting.is_set():
                    self._hang_up(server, client)
                    return
                client.sendall(answer)
        except OSError:
            pass  # either end went away: the finally below tells the other
        finally:
            _close(server, client)

    def _hang_up(self, server: socket.socket, client: socket.socket) -> None:
        self.cuts += 1
        self._then()
        _close(server, client)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):  # it is closed already
            end.shutdown(socket.SHUT_RDWR)
        end.close()
