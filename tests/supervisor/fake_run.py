"""A supervisor in a process of its own, to be killed: fake_run.py ROOT CODE."""

from __future__ import annotations

import sys
from pathlib import Path

from rekindle.home import HomeLock
from tests.supervisor.world import World


def main() -> None:
    world = World(Path(sys.argv[1]))
    lock = HomeLock(world.home)
    supervisor = world.supervisor(code=sys.argv[2])
    try:
        while True:
            supervisor.step()
    finally:
        lock.release()


if __name__ == "__main__":
    main()
