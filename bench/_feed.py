"""Input that is made once and then arrives, the same files in the same order, in every peer's run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench._workload import Scale, Step, Workload


@dataclass(frozen=True, slots=True)
class Staged:
    """The input of a workload at one scale."""

    workload: Workload
    scale: Scale
    steps: Sequence[Step]

    @property
    def rows(self) -> int:
        return sum(step.rows for step in self.steps)


def stage(workload: Workload, scale: Scale, folder: Path) -> Staged:
    folder.mkdir(parents=True)
    return Staged(workload, scale, workload.make(folder, scale, workload.parameters))


class Feed:
    """Lets files arrive in ``source``, by a link each, so that a file is there whole. ``arrived`` says when each step
    did, seconds since 1970."""

    def __init__(self, inputs: Mapping[str, str], source: Path) -> None:
        self.arrived: list[float] = []
        self.steps: list[Step] = []
        self._source = source
        self._ending = threading.Event()
        self._raised: list[BaseException] = []
        self._thread: threading.Thread | None = None
        for name in inputs:
            (source / name).mkdir(parents=True)

    def add(self, steps: Sequence[Step]) -> None:
        """All of them now."""
        for step in steps:
            self._arrive(step)

    def start(self, steps: Sequence[Step]) -> None:
        """One after the other, each when it is due, counted from the one before the first."""
        self._thread = threading.Thread(target=self._run, args=(steps,), name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Also raises what the thread raised."""
        self._ending.set()
        self.join()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
        if self._raised:
            raise self._raised[0]

    @property
    def is_over(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    @property
    def rows(self) -> int:
        return sum(step.rows for step in self.steps)

    def _run(self, steps: Sequence[Step]) -> None:
        begin_s, first_s = time.monotonic(), steps[0].due_s if steps else 0.0
        try:
            for step in steps:
                if self._ending.wait(max(0.0, begin_s + step.due_s - first_s - time.monotonic())):
                    return
                self._arrive(step)
        except BaseException as error:
            self._raised.append(error)

    def _arrive(self, step: Step) -> None:
        self.arrived.append(time.time())
        for name, path in step.files.items():
            os.link(path, self._source / name / path.name)
        self.steps.append(step)
