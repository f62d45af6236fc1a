"""``rekindle run`` as the demonstration starts it, with fake nodes: fake_run.py FILE --home DIR ..."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rekindle.cli import main, run
from rekindle.supervisor.supervise import Supervisor

NODE = Path(__file__).with_name("fake_node.py")


def supervised(home: Any, keeper: Any, pipeline: Any, command: Sequence[str], **options: Any) -> Supervisor:
    after_module = command.index("rekindle.node") + 1
    return Supervisor(home, keeper, pipeline, [sys.executable, str(NODE), *command[after_module:]], **options)


if __name__ == "__main__":
    vars(run).update(Supervisor=supervised, check_java=lambda: None)
    sys.argv.insert(1, "run")
    main.main()
