"""Which Java is good enough, judged by what a java on this host says of itself. No JVM is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import NoJava
from rekindle.java import check_java
from rekindle.supervisor.decide import REFUSED


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def a_java(folder: Path, *says: str, code: int = 0) -> Path:
    """A home of a java that says something."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    lines = "\n".join(f"echo '{line}' >&2" for line in says)
    java.write_text(f"#!/bin/sh\n{lines}\nexit {code}\n")
    java.chmod(0o755)
    return folder


def test_none_is_refused() -> None:
    with pytest.raises(NoJava, match="Java 17 or newer, and there is none") as caught:
        check_java()
    assert "JAVA_HOME is not set" in caught.value.detail
    assert "JAVA_HOME" in caught.value.hint
    assert caught.value.exit_code == REFUSED


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.1", "22-ea"])
@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_a_new_one_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, by: str) -> None:
    home = a_java(tmp_path, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g", f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv(by, str(home if by == "JAVA_HOME" else home / "bin"))
    check_java()


@pytest.mark.parametrize(("version", "java"), [("1.8.0_292", 8), ("11.0.2", 11), ("16", 16)])
def test_an_old_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, java: int) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, f'java version "{version}"')))
    with pytest.raises(NoJava, match="17 or newer") as caught:
        check_java()
    assert caught.value.primary.endswith(f"this is Java {java}")
    assert str(tmp_path / "bin" / "java") in caught.value.detail


def test_java_home_comes_first_even_if_it_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "good", 'openjdk version "17.0.1"') / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(NoJava, match="does not run") as caught:
        check_java()
    assert "JAVA_HOME says so" in caught.value.detail


def test_one_that_does_not_run_is_told_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, "could not reserve enough space", code=1)))
    with pytest.raises(NoJava, match="does not run") as caught:
        check_java()
    assert "could not reserve enough space" in caught.value.detail


def test_one_that_says_something_else_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, "a java of its own kind")))
    check_java()


@pytest.mark.parametrize("by", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_where_spark_sets_its_own_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setenv(by, str(tmp_path))
    folder = tmp_path / "conf" if by == "SPARK_HOME" else tmp_path
    folder.mkdir(exist_ok=True)
    with pytest.raises(NoJava):
        check_java()
    (folder / "spark-env.sh").write_text("JAVA_HOME=/somewhere\n")
    check_java()
