"""Apache Flink's own files: its jars from the Python package, and what reads Parquet, by its coordinates.

They are installed on first use into a folder of their own below ``.cache``: the package by pip, with the hashes of
``requirements-flink.lock``; the Parquet format by Ivy, which comes with Spark, checked against its hash here. The
Hadoop classes that it asks for are Spark's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.peers.base import ROOT, PeerFailed

LOCK = ROOT / "requirements-flink.lock"
PARQUET = ("org.apache.flink", "flink-sql-parquet", "2.3.0")
PARQUET_SHA256 = "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd"
INSTALL_S = 900


@dataclass(frozen=True, slots=True)
class FlinkHome:
    """An installed Flink."""

    jars: tuple[Path, ...]
    client: Path
    version: str

    @property
    def classpath(self) -> str:
        return os.pathsep.join(map(str, self.jars))


def flink_home(say: Callable[[str], None]) -> FlinkHome:
    """Flink, installed if it is not there yet. Raises PeerFailed if it cannot be."""
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    stamp = hashlib.sha256(LOCK.read_bytes() + PARQUET_SHA256.encode()).hexdigest()[:16]
    folder = cache / f"flink-{stamp}"
    with open(cache / "flink.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            say("installing Apache Flink into .cache (330 MB; once)")
            with tempfile.TemporaryDirectory(prefix="flink-", dir=cache) as temporary:
                made = Path(temporary) / "made"
                _install(made)
                made.rename(folder)
    return _found(folder)


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-compile"]
    _run([*pip, "--target", str(folder), "-r", str(LOCK)], "pip could not install Flink")
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder) as cache:
        coordinates = ["-dependency", *PARQUET, "-notransitive", "-confs", "default", "-cache", cache]
        target = str(folder / "parquet" / "[artifact].[ext]")
        ivy = [java(), "-jar", str(_one(_spark_jars(), "ivy-*.jar")), *coordinates, "-retrieve", target]
        _run(ivy, f"Ivy could not fetch {':'.join(PARQUET)}")
    jar = folder / "parquet" / f"{PARQUET[1]}.jar"
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != PARQUET_SHA256:
        raise PeerFailed(f"{':'.join(PARQUET)} is not what it was: sha256 {found}, not {PARQUET_SHA256}")


def _run(command: list[str], failed: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise PeerFailed(f"{failed}; is there a network?\n{(done.stdout + done.stderr)[-2000:]}")


def _found(folder: Path) -> FlinkHome:
    library = folder / "pyflink" / "lib"
    hadoop = [_one(_spark_jars(), f"hadoop-client-{part}-*.jar") for part in ("api", "runtime")]
    jars = [*sorted(library.glob("*.jar")), folder / "parquet" / f"{PARQUET[1]}.jar", *hadoop]
    dist = _one(library, "flink-dist-*.jar")
    client = _one(folder / "pyflink" / "opt", "flink-sql-client-*.jar")
    return FlinkHome(tuple(jars), client, dist.stem.removeprefix("flink-dist-"))


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise PeerFailed(f"{folder} has {len(found)} files {pattern}, not one")
    return found[0]


def java() -> str:
    """The Java that everything here runs on."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if found is None:
        raise PeerFailed("there is no Java: set JAVA_HOME, or call this by ./run bench")
    return found
