"""The named steps of an epoch, where tests and drills stop a process on purpose.

``REKINDLE_STEPS`` holds one or more ``action:step:subject:epoch``, separated by commas. Actions:

    kill      SIGKILL this process (its JVM follows when it finds its parent gone)
    kill_jvm  SIGKILL the JVM
    stop      SIGSTOP this process
    raise     raise an OSError

Each fires once: it leaves a file in ``REKINDLE_STEPS_DIR`` first, which also proves that it happened.
Without the variable a step costs nothing.
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
        self.kill_jvm: Callable[[], None] = lambda: None
        self.busy: Callable[[], bool] = lambda: True

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
            if (planned.step, planned.subject, planned.epoch) == (step, subject, epoch) and self._first(planned):
                if step == "during_compute":
                    threading.Thread(target=self._once_busy, args=(planned,), daemon=True).start()
                else:
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

    def _once_busy(self, planned: Planned) -> None:
        while not self.busy():
            time.sleep(0.001)
        self._act(planned)

    def _act(self, planned: Planned) -> None:
        if planned.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif planned.action == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif planned.action == "kill_jvm":
            self.kill_jvm()
        elif planned.action == "raise":
            raise OSError(errno.EIO, f"planned at {planned.step} of {planned.subject} {planned.epoch}")
