"""``rekindle run`` with fake nodes, in a process of its own, to lose its terminal: fake_run.py ROOT [--json]."""

from __future__ import annotations

import fcntl
import sys
import termios
import time
from pathlib import Path

from rekindle.cli import main, run
from rekindle.home import HomeLock
from tests.supervisor.world import World


def fake_run(*_: object) -> int:
    if sys.stdin is not None and sys.stdin.isatty():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # whose end is then told by SIGHUP
    world = World(Path(sys.argv[2]))
    lock = HomeLock(world.home)
    one = run.Run(world.home, world.keeper, world.pipeline, world.supervisor(), monotonic=time.monotonic)
    try:
        return one.to_its_end(None, None, as_json="--json" in sys.argv)
    finally:
        lock.release()


if __name__ == "__main__":
    run.run_file = fake_run  # type: ignore[assignment]
    sys.argv.insert(1, "run")
    main.main()
