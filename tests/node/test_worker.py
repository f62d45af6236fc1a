"""What a worker makes of failures."""

from __future__ import annotations

import errno
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.errors import PythonWorkerDied, SinkError
from rekindle.keeper.records import EpochNumber
from rekindle.node.failures import OperatorFailed
from rekindle.node.worker import Worker
from rekindle.pipeline import Settings


class Leaves(Worker):
    def work(self) -> None:
        sys.exit("enough")


def test_a_function_that_exits_is_a_failure_on_record(tmp_path: Path) -> None:
    failures: list[str] = []
    keeper = SimpleNamespace(
        record_attempt=lambda *_, **__: 3,
        record_failure=lambda subject, epoch, **detail: failures.append(detail["reason"]),
        event=lambda *_, **__: None,
    )
    context: Any = SimpleNamespace(
        keeper=keeper,
        incarnation=1,
        home=SimpleNamespace(root=tmp_path, is_full=lambda: False),
        settings=Settings(attempts_max=3),
        stopping=threading.Event(),
        jvm_alive=lambda: True,
    )
    worker = Leaves(context, "counts", owned=False)
    worker.start()
    assert worker.join(10)
    assert worker.failed
    assert failures == ["RuntimeError: user code called sys.exit('enough')"]


class Finds(Worker):
    """Raises what it is given, one after the other, then stops the node."""

    def __init__(self, context: Any, errors: list[Exception]) -> None:
        super().__init__(context, "counts", owned=False)
        self.epoch = EpochNumber(7)
        self._errors = errors

    def work(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.context.stopping.set()


class Told:
    """A keeper that remembers what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failures: list[str] = []
        self.attempts = 0
        self.heads: list[int] = []

    def event(self, kind: str, subject: str, **detail: Any) -> None:
        self.events.append(kind)

    def record_attempt(self, *_: Any, **__: Any) -> int:
        self.attempts += 1
        return self.attempts

    def record_failure(self, subject: str, epoch: int, **detail: Any) -> None:
        self.failures.append(detail["reason"])

    def head(self, subject: str) -> int:
        return self.heads.pop(0)


def survive(monkeypatch: pytest.MonkeyPatch, errors: list[Exception], *heads: int, home_full: int = 0) -> Told:
    """What a worker tells that meets these errors. The home is full so many times that it is asked."""
    monkeypatch.setattr("rekindle.node.worker.DISK_WAIT_S", 0.001)
    monkeypatch.setattr("rekindle.node.worker.RETRY_S", (0.001,))
    told, asked = Told(), iter([True] * home_full)
    told.heads += heads
    context: Any = SimpleNamespace(
        keeper=told,
        incarnation=1,
        home=SimpleNamespace(is_full=lambda: next(asked, False)),
        settings=Settings(attempts_max=3, restarts_max=3),
        stopping=threading.Event(),
        jvm_alive=lambda: True,
    )
    worker = Finds(context, errors)
    worker.start()
    assert worker.join(10)
    assert worker.failed is bool(told.failures)
    return told


def no_room(how: str) -> Exception:
    """A full disk as Python says it, as a sink wraps it, and as the JVM does."""
    error = OSError(errno.ENOSPC, "No space left on device")
    if how == "wrapped":
        wrapped = SinkError("the sink did not take epoch 7")
        wrapped.__cause__ = error
        return wrapped
    return OperatorFailed("java.io.IOException: No space left on device") if how == "JVM" else error


@pytest.mark.parametrize("how", ["plain", "wrapped", "JVM"])
def test_a_full_disk_is_no_attempt_and_said_once(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    told = survive(monkeypatch, [no_room(how) for _ in range(10)])
    assert (told.events, told.attempts, told.failures) == (["disk_full"], 0, [])


def test_whatever_fails_on_a_full_home_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    told = survive(monkeypatch, [RuntimeError("who knows why")], home_full=5)
    assert (told.events, told.attempts, told.failures) == (["disk_full"], 0, [])


def test_what_raises_is_tried_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    told = survive(monkeypatch, [ValueError("no") for _ in range(3)])
    assert told.events == ["epoch_retried", "epoch_retried", "worker_failed"]
    assert told.failures == ["ValueError: no"]


def test_deaths_of_python_workers_count_by_themselves_and_from_epoch_to_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    def death() -> Exception:
        return PythonWorkerDied("a Python worker died")

    told = survive(monkeypatch, [death(), death(), ValueError("no"), death(), death()], 6, 6, 7, 7)
    assert (told.attempts, told.failures) == (1, [])
    told = survive(monkeypatch, [death(), death(), death()], 6, 6, 6)
    assert told.events == ["python_worker_died", "python_worker_died", "worker_failed"]
    assert told.failures == ["a Python worker died, 3 times without a new epoch in between"]
