"""A worker: one thread of a node that takes epoch after epoch, and what it does when one fails.

Of all nodes that host a worker only its owner works, and the others stand by; the replicas of an active standby work
all. A failed epoch is tried again ``attempts_max`` times, over all incarnations; then this worker stops with the
user's own traceback on record, and the others go on. The death of a Python worker of Spark is nobody's exception: like
deaths of a node, ``restarts_max`` of them without a new epoch are too many. A full disk and an absent keeper are waited
out. A fenced incarnation ends the whole node.
"""

from __future__ import annotations

import errno
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from pyspark.sql import SparkSession

from rekindle.errors import BrokenInvariant, Fenced, KeeperUnavailable, PythonWorkerDied, RekindleError
from rekindle.home import Home
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation
from rekindle.node.ownership import Ownership
from rekindle.node.prescribed import Prescribed
from rekindle.node.steps import Steps
from rekindle.node.traits import Analysis
from rekindle.pipeline import Pipeline, Settings

DISK_WAIT_S = 1.0
KEEPER_WAIT_S = 1.0
STANDBY_S = 60.0
REHEARSE_AGAIN_S = 1.0
JVM_DISK_FULL = "No space left on device"
RETRY_S = (0.1, 0.5, 2.0)


@dataclass(frozen=True, slots=True)
class Context:
    """What the workers of one node share."""

    pipeline: Pipeline
    home: Home
    keeper: Keeper
    incarnation: Incarnation
    spark: SparkSession
    cores: int
    analysis: Analysis
    steps: Steps
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    die: Callable[[BaseException], NoReturn]
    jvm_alive: Callable[[], bool]
    ownership: Ownership
    stopping: threading.Event = field(default_factory=threading.Event)
    prescribed: Prescribed = field(default_factory=Prescribed)

    @property
    def settings(self) -> Settings:
        return self.pipeline.settings


WAITING, STANDBY, JOINING, COMPUTING = "waiting", "standby", "joining", "computing"


class Worker(ABC):
    """Runs in a thread of its own until the node stops or the worker gives up.

    ``owned`` says that only the owner of ``subject`` works; ``of`` is how many nodes shall host it. ``role`` says what
    it does now: waiting (not fit to take over yet), standby, joining, computing.
    """

    def __init__(self, context: Context, subject: str, *, owned: bool = True, of: int = 1) -> None:
        self.context = context
        self.subject = subject
        self.owned = owned
        self.of = of
        self.role = WAITING
        self.epoch = EpochNumber(0)  # the one in hand
        self.tries = 0
        self._full_at: EpochNumber | None = None
        self._python_deaths = (0, 0)  # how many, since the stream stood where
        self.failed = False
        self.looked = True  # whether it has seen what there is to do; sources clear it until they have
        self._thread = threading.Thread(target=self._main, name=subject, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the worker to end; False if it has not."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def settled(self) -> bool:
        """Whether it has found its place: at work and having looked around, standing by, or failed for good."""
        return self.failed or self.role == STANDBY or self.looked

    @abstractmethod
    def work(self) -> None:
        """Take epochs until the node stops. Called again after a failure that is worth another try."""

    def stand_by(self) -> None:
        """Get ready to take over, and wait until this node owns the subject or stops."""
        done = False
        while not self._is_mine():
            done = done or self.rehearse(self._is_mine)
            self.role = STANDBY
            self.context.ownership.wait(self.subject, STANDBY_S if done else REHEARSE_AGAIN_S)

    def rehearse(self, enough: Callable[[], bool]) -> bool:
        """Run in what taking over will need, until it is ``enough``; False if there is nothing to try it on yet."""
        return True

    @property
    def position(self) -> int:
        """The epoch in hand; of one that stands by, the newest that it could start from."""
        return self.epoch

    def _is_mine(self) -> bool:
        return not self.owned or self.context.stopping.is_set() or self.context.ownership.owns(self.subject)

    def _main(self) -> None:
        while not self.context.stopping.is_set():
            try:
                self.tries += 1
                if not self._is_mine():
                    self.stand_by()
                if self.context.stopping.is_set():
                    return
                self.role = COMPUTING
                self._take_epochs()
            except Exception as error:
                try:
                    survived = self._survive(error)
                except Exception as worse:  # fenced, or what nobody thought of: the supervisor replaces this node
                    self.context.die(worse)
                if not survived:
                    self.failed = True
                    return

    def _take_epochs(self) -> None:
        try:
            self.work()
        except SystemExit as error:  # it would end this thread without a word
            raise RuntimeError(f"user code called sys.exit({error.code!r})") from error

    def _survive(self, error: Exception) -> bool:
        """Deal with a failed epoch; True to try again."""
        context = self.context
        cause = self.cause(error)
        if isinstance(cause, Fenced) or not context.jvm_alive():
            context.die(cause)
        if isinstance(cause, KeeperUnavailable):
            context.stopping.wait(KEEPER_WAIT_S)
            return True
        if self._disk_is_full(cause):
            if self._full_at != self.epoch:  # said once, however long it takes
                context.keeper.event("disk_full", self.subject, epoch=self.epoch, reason=first_line(cause))
            self._full_at = self.epoch
            context.stopping.wait(DISK_WAIT_S)
            while context.home.is_full() and not context.stopping.is_set():
                context.stopping.wait(DISK_WAIT_S)
            return True
        if isinstance(cause, PythonWorkerDied):
            return self._survive_python(cause)
        attempts = context.keeper.record_attempt(self.subject, self.epoch, by=context.incarnation)
        if isinstance(cause, BrokenInvariant) or attempts >= context.settings.attempts_max:
            return self._give_up(cause, reason_of(cause), attempts=attempts)
        context.keeper.event("epoch_retried", self.subject, epoch=self.epoch, reason=reason_of(cause), attempt=attempts)
        context.stopping.wait(RETRY_S[min(attempts, len(RETRY_S)) - 1])
        return True

    def _survive_python(self, cause: PythonWorkerDied) -> bool:
        """Try again, unless Python workers died too often where the stream stands now."""
        context = self.context
        head = context.keeper.head(self.subject)
        deaths, stood = self._python_deaths
        deaths = deaths + 1 if stood == head else 1
        self._python_deaths = (deaths, head)
        if deaths >= context.settings.restarts_max:
            reason = f"{cause.primary}, {deaths} times without a new epoch in between"
            return self._give_up(cause, reason, deaths=deaths)
        context.keeper.event("python_worker_died", self.subject, epoch=self.epoch, deaths=deaths)
        context.stopping.wait(RETRY_S[min(deaths, len(RETRY_S)) - 1])
        return True

    def _give_up(self, cause: BaseException, reason: str, **counted: int) -> bool:
        keeper, text = self.context.keeper, "".join(traceback.format_exception(cause))
        keeper.record_failure(self.subject, self.epoch, reason=reason, traceback=text, by=self.context.incarnation)
        keeper.event("worker_failed", self.subject, epoch=self.epoch, reason=reason, **counted)
        return False

    def cause(self, error: Exception) -> BaseException:
        """The error that a person wants to read about."""
        return error

    def _disk_is_full(self, cause: BaseException) -> bool:
        seen: BaseException | None = cause
        while seen is not None:  # a sink's own disk may be full, and the JVM has nothing but text to say it
            if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
                return True
            seen = seen.__cause__
        if JVM_DISK_FULL in str(cause):
            return True
        return self.context.home.is_full()


def reason_of(error: BaseException) -> str:
    return error.primary if isinstance(error, RekindleError) else first_line(error)


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
