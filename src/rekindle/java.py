"""Whether there is a Java that Spark can run on, looked for where Spark looks: JAVA_HOME, then the PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from rekindle.errors import NoJava

JAVA_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # Java 8 calls itself 1.8
_PATIENCE_S = 60.0
_INSTALL = "install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one"


def check_java() -> None:
    """Raise NoJava if Spark would find no Java, or one that is too old."""
    if _may_be_set_by_spark():
        return
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and there is none",
            detail="JAVA_HOME is not set, and no java is on the PATH",
            hint=_INSTALL,
        )
    why = "JAVA_HOME says so" if home else "it is on the PATH"
    version = _version_of(java, why)
    if version is not None and version < JAVA_MIN:
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and this is Java {version}", detail=f"{java}: {why}", hint=_INSTALL
        )


def _version_of(java: str, why: str) -> int | None:
    """The major version that a java tells; None if it tells something else. Raises NoJava if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and {java} does not run", detail=f"{why}: {error}", hint=_INSTALL
        ) from error
    said = (done.stderr + done.stdout).decode(errors="replace").strip()
    if done.returncode != 0:
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and {java} does not run",
            detail=f"{why}; 'java -version' ended with {done.returncode}: {said[-500:] or 'it said nothing'}",
            hint=_INSTALL,
        )
    found = _VERSION.search(said)
    return int(found[1]) if found is not None else None


def _may_be_set_by_spark() -> bool:
    """Whether there is a spark-env.sh, which Spark's scripts read first and which may set another JAVA_HOME."""
    spark_home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (spark_home and os.path.join(spark_home, "conf"))
    return bool(folder) and Path(str(folder), "spark-env.sh").is_file()
