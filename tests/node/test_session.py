"""A Spark session that does not come up, in a process of its own. No JVM is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rekindle
from rekindle.node.session import heap_mb
from rekindle.supervisor.decide import REFUSED

PROGRAM = (
    "import sys; from pathlib import Path; from rekindle.errors import RekindleError\n"
    "from rekindle.node.session import start_session\n"
    "try: start_session('test', cores=1, conf={}, scratch=Path(sys.argv[1]))\n"
    "except RekindleError as error: print(error); sys.exit(error.exit_code)"
)


def start(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    env = {**kept, "PYTHONPATH": str(Path(rekindle.__file__).parents[1]), **env}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_without_java_the_node_refuses(tmp_path: Path) -> None:
    done = start(tmp_path, PATH="")
    assert done.returncode == REFUSED, done.stderr
    assert "Java 17 or newer, and there is none" in done.stdout
    assert "Hint: install one" in done.stdout


def test_another_reason_is_told_and_may_pass(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("""#!/bin/sh\n[ "$1" = -version ] && echo 'openjdk version "17.0.1"' >&2\n[ "$1" = -version ]\n""")
    java.chmod(0o755)
    done = start(tmp_path, PATH="/usr/bin:/bin", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "Spark did not start" in done.stdout
    assert "Hint: what Spark wrote just before this says why" in done.stdout


def test_the_heap_may_grow_to_an_eighth_of_the_memory_within_bounds() -> None:
    assert [heap_mb(gigabytes * 2**30) for gigabytes in (2, 8, 24, 256)] == [1024, 1024, 3072, 4096]
