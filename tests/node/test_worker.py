"""What a worker makes of failures."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
