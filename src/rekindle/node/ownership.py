"""What this node owns: of everything that only one node may do at a time, the part that falls to this one.

A thread watches the keeper. As soon as an owner is no longer live, every node that stands by asks for its place, and
the keeper gives it to the first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NoReturn

from rekindle.errors import KeeperUnavailable
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Incarnation

log = logging.getLogger("rekindle.node")
WAIT_S = 1.0
PAUSE_S = 0.01


class Ownership:
    """Starts when ``start`` names the subjects, and ends with ``stopping``. ``taking`` is called when something falls
    to this node."""

    def __init__(
        self,
        keeper: Keeper,
        incarnation: Incarnation,
        stopping: threading.Event,
        die: Callable[[BaseException], NoReturn],
        taking: Callable[[], None] = lambda: None,
    ) -> None:
        self._keeper = keeper
        self._by = incarnation
        self._stopping = stopping
        self._die = die
        self._taking = taking
        self._changed = threading.Condition()
        self._owned: dict[str, bool] = {}  # subject -> whether nothing was lost with its owner before
        self._wanted: dict[str, bool] = {}
        self._node = ""

    def start(self, node: str, subjects: Mapping[str, bool]) -> None:
        """``subjects`` may be owned by ``node``; the value says whether only the owner works. Where all work, there is
        nothing that a new owner takes over but the shipping of layers."""
        self._node = node
        self._wanted = dict(subjects)
        with suppress(KeeperUnavailable):  # the thread goes on asking
            self._look()  # so that nobody stands by who need not
        threading.Thread(target=self._watch, name="ownership", daemon=True).start()

    def owns(self, subject: str) -> bool:
        with self._changed:
            return subject in self._owned

    def wait(self, subject: str, timeout_s: float) -> bool:
        """Wait until this node owns ``subject``; False if it does not, or the node is stopping."""
        with self._changed:
            self._changed.wait_for(lambda: subject in self._owned or self._stopping.is_set(), timeout_s)
            return subject in self._owned and not self._stopping.is_set()

    def intact(self, subject: str) -> bool:
        """Whether nobody died on ``subject`` since this question was last answered: its owner before had left by
        itself, or there was none."""
        with self._changed:
            intact = self._owned.get(subject, True)
            if subject in self._owned:
                self._owned[subject] = True
            return intact

    def nudge(self) -> None:
        """Make those who wait look at ``stopping``."""
        with self._changed:
            self._changed.notify_all()

    def _watch(self) -> None:
        seen = 0
        while not self._stopping.is_set():
            try:
                if not self._look():
                    return
                seen = self._keeper.wait(seen, WAIT_S)
                time.sleep(PAUSE_S)  # changes come in bursts
            except KeeperUnavailable as error:
                log.warning("cannot see who owns what: %s", error.primary)
            except Exception as error:  # fenced, or what nobody thought of: the supervisor replaces this node
                self._die(error)

    def _look(self) -> bool:
        """Ask for what has no live owner; False when there is nothing left to ask for."""
        missing = sorted(self._wanted.keys() - self._owned.keys())
        if not missing:
            return False
        owners = self._keeper.owners()
        for subject in missing:
            owner = owners.get(subject)
            if (owner is None or not owner.live) and not self._stopping.is_set():
                self._ask(subject)
        return True

    def _ask(self, subject: str) -> None:
        answer = self._keeper.own(subject, by=self._by)
        if answer.incarnation != self._by:
            return
        self._taking()
        intact = True
        if answer.before is not None:
            before = next((m for m in self._keeper.members(live=False) if m.incarnation == answer.before), None)
            intact = before is not None and before.state == "left"
        with self._changed:
            self._owned[subject] = intact
            self._changed.notify_all()
        if answer.before is not None and self._wanted[subject]:
            self._keeper.event("taken_over", subject, incarnation=self._by, before=answer.before, node=self._node)
