"""The named steps of an epoch, where tests and drills stop a process on purpose.

``REKINDLE_STEPS`` holds one or more ``action:step:subject:epoch``, separated by commas. Actions:

    kill      SIGKILL this process (its JVM follows when it finds its parent gone)
    kill_jvm  SIGKILL the JVM
    stop      SIGSTOP this process
    raise     raise an OSError

Each fires once: it leaves a file in ``REKINDLE_STEPS_DIR`` first, which also proves that it happened.
Without the variable a step costs nothing.

    before_claim      nobody has claimed the epoch; this replica is about to propose
    after_claim       the claim is on record, nothing is computed
    during_compute    Spark runs tasks of this subject's job; where no job runs, its rows are written in part
    before_publish    the segments are durable, the keeper does not know them
    after_publish     the epoch is on record; a stateful fragment's Spark has not committed it
    before_delivery   the sink was told nothing
    after_delivery    the sink has the epoch, the keeper does not know

A replica that adopts a claim, or replays an epoch that is published, passes only the steps that are true of it.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

STEPS = (
    "before_claim",
    "after_claim",
    "during_compute",
    "before_publish",
    "after_publish",
    "before_delivery",
    "after_delivery",
)


@dataclass(frozen=True, slots=True)
class Planned:
    action: str
    step: str
    subject: str
    epoch: int


class Steps:
    def __init__(self, planned: tuple[Planned, ...] = (), folder: Path | None = None) -> None:
        self._planned = planned
        self._folder = folder
        self._turn = threading.Lock()
        self.kill_jvm: Callable[[], None] = lambda: None
        self.job_group: Callable[[], str] = lambda: ""
        self.busy: Callable[[str], bool] = lambda group: True

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Steps:
        text = environment.get("REKINDLE_STEPS", "")
        if not text:
            return Steps()
        planned = tuple(
            Planned(a, s, subject, int(e)) for a, s, subject, e in (item.split(":") for item in text.split(","))
        )
        unknown = [p.step for p in planned if p.step not in STEPS]
        if unknown:
            raise ValueError(f"REKINDLE_STEPS names the unknown step {unknown[0]!r}; there are {', '.join(STEPS)}")
        return Steps(planned, Path(environment["REKINDLE_STEPS_DIR"]))

    def at(self, step: str, subject: str, epoch: int) -> None:
        """Called when ``subject`` reaches ``step`` of ``epoch``."""
        for planned in self._planned:
            if (planned.step, planned.subject, planned.epoch) == (step, subject, epoch):
                self._act_once(planned)

    def computing(self, subject: str, epoch: int) -> Callable[[], None]:
        """Called by the thread that is about to start a Spark job for ``epoch``: ``during_compute`` is reached once
        tasks of it run. Returns what to call when the job is over.
        """
        here = [p for p in self._planned if (p.step, p.subject, p.epoch) == ("during_compute", subject, epoch)]
        if not here:
            return _nothing
        over = threading.Event()
        group = self.job_group()
        for planned in here:
            if planned.action == "raise":
                self.at("during_compute", subject, epoch)
            else:
                threading.Thread(target=self._once_busy, args=(planned, group, over), daemon=True).start()
        return over.set

    def _act_once(self, planned: Planned) -> None:
        with self._turn:  # a process that is stopped at one step must not have left the mark of another
            if self._first(planned):
                self._act(planned)

    def _first(self, planned: Planned) -> bool:
        if self._folder is None:
            return False
        mark = self._folder / f"{planned.action}-{planned.step}-{planned.subject}-{planned.epoch}"
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _once_busy(self, planned: Planned, group: str, over: threading.Event) -> None:
        while not over.is_set():
            if self.busy(group):
                self._act_once(planned)
                return
            time.sleep(0.001)

    def _act(self, planned: Planned) -> None:
        if planned.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif planned.action == "stop":
            # Sent to the process, another thread might take it, and this one run on for a moment.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        elif planned.action == "kill_jvm":
            self.kill_jvm()
        elif planned.action == "raise":
            raise OSError(errno.EIO, f"planned at {planned.step} of {planned.subject} {planned.epoch}")


def _nothing() -> None:
    """No step is planned here."""
