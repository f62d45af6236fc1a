"""Apache Flink's own files: its jars from the Python package, and those that the package leaves out, by coordinates.

They are installed on first use into a folder of their own below ``.cache``: the package by pip, with the hashes of
``requirements-flink.lock``; what reads Parquet and what takes SQL by Ivy, which comes with Spark, checked against the
hashes here. The Hadoop classes that Parquet asks for are Spark's.
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
GROUP, VERSION = "org.apache.flink", "2.3.0"
PARQUET, GATEWAY, GATEWAY_API = "flink-sql-parquet", "flink-sql-gateway", "flink-sql-gateway-api"
SHA256 = {
    PARQUET: "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd",
    GATEWAY: "aad296a152dc367ddd70727f5a57dd61958cff3d8dceb1f947bf8d9705c8d724",
    GATEWAY_API: "85658df5d4fc689cd9a5d45b6841dbdbae4a92942b9c3e561cec396fb4e910ff",
}
INSTALL_S = 900


@dataclass(frozen=True, slots=True)
class FlinkHome:
    """An installed Flink."""

    jars: tuple[Path, ...]
    client_jars: tuple[Path, ...]

    @property
    def classpath(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    @property
    def client_classpath(self) -> str:
        return os.pathsep.join(map(str, self.jars + self.client_jars))


def flink_home(say: Callable[[str], None]) -> FlinkHome:
    """Flink, installed if it is not there yet. Raises PeerFailed if it cannot be."""
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    stamp = hashlib.sha256(LOCK.read_bytes() + repr(SHA256).encode()).hexdigest()[:16]
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
    ivy = [java(), "-jar", str(_one(_spark_jars(), "ivy-*.jar")), "-notransitive", "-confs", "default"]
    for name, sha256 in SHA256.items():
        with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder) as cache:
            target = str(folder / "more" / "[artifact].[ext]")
            what = ["-dependency", GROUP, name, VERSION, "-cache", cache, "-retrieve", target]
            _run([*ivy, *what], f"Ivy could not fetch {GROUP}:{name}:{VERSION}")
        found = hashlib.sha256((folder / "more" / f"{name}.jar").read_bytes()).hexdigest()
        if found != sha256:
            raise PeerFailed(f"{GROUP}:{name}:{VERSION} is not what it was: sha256 {found}, not {sha256}")


def _run(command: list[str], failed: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise PeerFailed(f"{failed}; is there a network?\n{(done.stdout + done.stderr)[-2000:]}")


def _found(folder: Path) -> FlinkHome:
    package, more = folder / "pyflink", folder / "more"
    hadoop = [_one(_spark_jars(), f"hadoop-client-{part}-*.jar") for part in ("api", "runtime")]
    jars = [*sorted((package / "lib").glob("*.jar")), more / f"{PARQUET}.jar", *hadoop]
    client = [_one(package / "opt", f"flink-{part}-*.jar") for part in ("sql-client", "python")]
    return FlinkHome(tuple(jars), (*client, more / f"{GATEWAY}.jar", more / f"{GATEWAY_API}.jar"))


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
