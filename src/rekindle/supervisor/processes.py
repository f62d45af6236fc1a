"""The processes of nodes on this host: start them, watch them end, kill what is left of them.

Every process that a node starts, its JVM and Python workers too, inherits a mark in its environment that
names the home and the incarnation. That is how leftovers are found: process groups do not do, since
Spark's worker daemon makes one of its own, and the sessions of dead leaders cannot be told from reused
process ids. Signals go through pidfds, so they never hit a process that reused an id.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rekindle.keeper.records import Incarnation

MARK = "REKINDLE_INCARNATION"
_PROC = Path("/proc")
_STARTED = 21 - 2  # field 22 of /proc/PID/stat, counted from the third, after the name in parentheses
_SESSION = 6 - 3


def this_host() -> str:
    """How members name the host that they run on."""
    return socket.gethostname()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if there is none or it is dead."""
    stat = _stat(pid)
    return None if stat is None else int(stat[_STARTED])


def _stat(pid: int) -> list[str] | None:
    """/proc/PID/stat from the third field on; None if the process is gone, or a corpse."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields


class Watched:
    """A process that is watched through a pidfd, whether it is a child or not."""

    def __init__(self, pid: int, pid_started: int, pidfd: int, *, child: bool = False) -> None:
        self.pid = pid
        self.pid_started = pid_started
        self._pidfd = pidfd
        self._child = child

    def fileno(self) -> int:
        """Readable once the process has ended."""
        return self._pidfd

    def ended(self) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    def exit_code(self) -> int | None:
        """The exit code, or minus the signal; None if it runs, or is not a child. The corpse stays for now:
        while it does, its process id is not used again."""
        if not self._child:
            return None
        result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def stopped(self) -> bool:
        """Whether the process was stopped by a signal, so that it will do nothing by itself."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
        except (FileNotFoundError, ProcessLookupError):
            return False

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def close(self) -> None:
        """Stop watching. The corpse of a child is buried."""
        if self._child:
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOHANG)
        os.close(self._pidfd)


class _Leftover(Watched):
    """A process that was killed, watched only until it has ended."""


class Processes:
    """All node processes of one home on this host."""

    def __init__(self, home_id: str) -> None:
        self._home_id = home_id
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)

    # -- starting and watching -----------------------------------------------------------------------

    def start(self, incarnation: Incarnation, command: Sequence[str], log: Path, env: Mapping[str, str]) -> Watched:
        """Start a node in a session of its own, so that no terminal and no dying supervisor stops it.

        Raises OSError if the system cannot."""
        pid = os.posix_spawnp(
            command[0],
            list(command),
            {**env, MARK: self._mark(incarnation)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them
        )
        # A child that has ended already is a corpse until it is waited for: its pidfd can still be had.
        watched = Watched(pid, start_ticks(pid) or 0, os.pidfd_open(pid), child=True)
        self._selector.register(watched, selectors.EVENT_READ, watched)
        return watched

    def adopt(self, pid: int, pid_started: int) -> Watched | None:
        """Watch a process that somebody else started; None if it has ended."""
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        if start_ticks(pid) != pid_started:  # looked at after opening: the id cannot be reused in between
            os.close(pidfd)
            return None
        watched = Watched(pid, pid_started, pidfd)
        self._selector.register(watched, selectors.EVENT_READ, watched)
        return watched

    def forget(self, watched: Watched) -> None:
        with suppress(KeyError):
            self._selector.unregister(watched)
        watched.close()

    def wait(self, timeout_s: float) -> None:
        """Return as soon as a watched process ends or ``wake`` is called, at the latest after ``timeout_s``."""
        for key, _ in self._selector.select(max(timeout_s, 0.0)):
            if key.data is None:
                with suppress(BlockingIOError):
                    while self._wake_out.recv(4096):
                        pass
            else:
                self._selector.unregister(key.fileobj)  # it told; it would tell for ever
                if isinstance(key.data, _Leftover):
                    key.data.close()

    def wake(self) -> None:
        """End a ``wait``, also from a signal handler."""
        with suppress(OSError):  # full: it wakes in any case; closed: nobody waits any more
            self._wake_in.send(b"\0")

    def close(self) -> None:
        """Stop watching. No process is touched."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Leftover):
                key.data.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    # -- what is left of an incarnation --------------------------------------------------------------

    def remains(self, incarnation: Incarnation, leader: Watched | None) -> list[int]:
        """The ids of the processes of an incarnation that still live, its leader's among them."""
        mark = self._mark(incarnation)
        session = leader.pid if leader is not None and self._owns_session(leader) else None
        return [pid for pid in _pids() if self._is_of(pid, mark, session)]

    def incarnations(self) -> dict[Incarnation, list[int]]:
        """All incarnations of this home of which some process lives on this host."""
        found: dict[Incarnation, list[int]] = {}
        for pid in _pids():
            mark = _mark_of(pid)
            if mark is not None and mark.startswith(f"{self._home_id}/"):
                found.setdefault(Incarnation(int(mark.rpartition("/")[2])), []).append(pid)
        return found

    def leads(self, pid: int) -> bool:
        """Whether a process leads its session, as a node does."""
        stat = _stat(pid)
        return stat is not None and int(stat[_SESSION]) == pid

    def kill(self, incarnation: Incarnation, leader: Watched | None) -> int:
        """SIGKILL all processes of an incarnation; returns how many.

        They end soon, not at once: ``wait`` returns when one has, then look again."""
        mark = self._mark(incarnation)
        session = leader.pid if leader is not None and self._owns_session(leader) else None
        killed = 0
        for pid in self.remains(incarnation, leader):
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            if not self._is_of(pid, mark, session):
                os.close(pidfd)
                continue
            leftover = _Leftover(pid, 0, pidfd)
            leftover.signal(signal.SIGKILL)
            killed += 1
            self._selector.register(leftover, selectors.EVENT_READ, leftover)
        return killed

    def _mark(self, incarnation: Incarnation) -> str:
        return f"{self._home_id}/{incarnation}"

    def _owns_session(self, leader: Watched) -> bool:
        """Whether the leader's process id is surely still its own: it runs, or is a corpse not yet buried."""
        return start_ticks(leader.pid) == leader.pid_started or leader.exit_code() is not None

    def _is_of(self, pid: int, mark: str, session: int | None) -> bool:
        if _mark_of(pid) == mark:
            return True
        if session is None:
            return False
        stat = _stat(pid)
        return stat is not None and int(stat[_SESSION]) == session


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir(_PROC) if entry.isdigit() and int(entry) != os.getpid()]


def _mark_of(pid: int) -> str | None:
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    prefix = f"{MARK}=".encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None
