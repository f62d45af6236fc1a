"""A node without Spark: it beats, drains, and misbehaves when a file in its control folder says so.

    NODE.exit     holds an exit code: exit with it at once, after saying why
    NODE.mute     never beat
    NODE.stubborn do not drain
    NODE.freeze   stop in the middle of a transaction of the keeper's database
    NODE.failed   holds names of what failed in it for good

It writes NODE-INCARNATION.saw: the incarnations of this home that had processes when it started, and
NODE-INCARNATION.child: the process id of its child, which is in a process group of its own like Spark's.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from rekindle.errors import Fenced
from rekindle.home import open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.records import Incarnation
from rekindle.supervisor.processes import Processes, start_ticks, this_host

BEAT_S = 0.05


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("control", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    args = parser.parse_args()
    node, by = args.node, Incarnation(args.incarnation)
    asked = False

    def told(what: str) -> Path:
        return Path(args.control / f"{node}.{what}")

    def on_term(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True

    signal.signal(signal.SIGTERM, on_term)
    home = open_home(args.home)
    processes = Processes(home.id)
    (args.control / f"{node}-{by}.saw").write_text(" ".join(map(str, sorted({*processes.incarnations(), by}))))
    if told("exit").exists():
        print(f"node {node} cannot: {os.environ.get('REKINDLE_KEEPER')}", flush=True)
        return int(told("exit").read_text())
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    (args.control / f"{node}-{by}.child").write_text(str(child.pid))
    keeper = open_keeper(os.environ.get("REKINDLE_KEEPER"), home=home, clock=time.time, patience_s=10)
    try:
        keeper.present(by, host=this_host(), pid=os.getpid(), pid_started=start_ticks(os.getpid()) or 0)
        while True:
            if told("freeze").exists():
                told("freeze").unlink()
                with sqlite3.connect(home.keeper_file, isolation_level=None) as database:
                    database.execute("BEGIN IMMEDIATE")
                    (args.control / f"{node}-{by}.frozen").touch()
                    os.kill(os.getpid(), signal.SIGSTOP)
            if not told("mute").exists():
                failed = told("failed").read_text().split() if told("failed").exists() else []
                want = keeper.beat(by, {"phase": "ready", "failed": failed})
                if (asked or want == "drain") and not told("stubborn").exists():
                    keeper.leave(by)
                    return 0
            time.sleep(BEAT_S)
    except Fenced:
        return 6
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
