"""Flink is installed once, whole, and only if it is what it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.peers import flink_home as home
from bench.peers.base import PeerFailed


class Shop:
    """In place of pip and Ivy."""

    def __init__(self, content: bytes = b"jar") -> None:
        self.commands: list[list[str]] = []
        self.content = content

    def __call__(self, command: list[str], failed: str) -> None:
        self.commands.append(command)
        if "pip" in command:
            target = Path(command[command.index("--target") + 1])
            for name in ("lib/flink-dist-1.jar", "opt/flink-sql-client-1.jar", "opt/flink-python-1.jar"):
                (target / "pyflink" / name).parent.mkdir(parents=True, exist_ok=True)
                (target / "pyflink" / name).touch()
            return
        target = Path(command[command.index("-retrieve") + 1]).parent
        target.mkdir(exist_ok=True)
        (target / f"{command[command.index('-dependency') + 2]}.jar").write_bytes(self.content)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    opened = Shop()
    (tmp_path / "flink.lock").write_text("apache-flink-libraries==1 --hash=sha256:0")
    monkeypatch.setattr(home, "ROOT", tmp_path)
    monkeypatch.setattr(home, "LOCK", tmp_path / "flink.lock")
    monkeypatch.setattr(home, "SHA256", dict.fromkeys(home.SHA256, hashlib.sha256(b"jar").hexdigest()))
    monkeypatch.setattr(home, "_run", opened)
    monkeypatch.setattr(home, "java", lambda: "java")
    return opened


def test_it_is_installed_once_with_hashes(shop: Shop) -> None:
    said: list[str] = []
    found, again = home.flink_home(said.append), home.flink_home(said.append)
    assert found == again and len(said) == 1 and len(shop.commands) == 4
    assert "--require-hashes" in shop.commands[0]
    names = [path.name for path in found.jars]
    assert {"flink-dist-1.jar", "flink-sql-parquet.jar"} < set(names)
    assert [name for name in names if name.startswith("hadoop-client-")]  # Spark's
    assert all(path.exists() for path in (*found.jars, *found.client_jars))


def test_a_jar_that_is_another_one_is_refused_and_nothing_is_left(shop: Shop, tmp_path: Path) -> None:
    shop.content = b"another jar"
    with pytest.raises(PeerFailed, match="is not what it was: sha256"):
        home.flink_home(lambda _text: None)
    assert [path.name for path in (tmp_path / ".cache").iterdir()] == ["flink.lock"]


def test_what_cannot_be_fetched_says_what_and_why() -> None:
    with pytest.raises(PeerFailed, match="pip could not install Flink; is there a network"):
        home._run(["sh", "-c", "echo no route >&2; exit 1"], "pip could not install Flink")
