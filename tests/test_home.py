"""The home: whose it is, who may use it, and that nothing leads out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.errors import HomeInUse, HomeUnusable
from rekindle.home import HOME_VERSION, Home, HomeLock, create_or_open, durable_create, open_home, without_password


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return create_or_open(tmp_path / "home", "p", None)


def test_a_home_is_made_once_and_found_again(home: Home) -> None:
    assert create_or_open(home.root, "p", None) == home == open_home(home.root)
    assert home.keeper_url == "sqlite"


def test_a_home_belongs_to_one_pipeline(home: Home) -> None:
    with pytest.raises(HomeUnusable, match="belongs to the pipeline 'p', not to 'q'"):
        create_or_open(home.root, "q", None)


def test_a_home_keeps_its_keeper(home: Home) -> None:
    with pytest.raises(HomeUnusable, match="made with another keeper"):
        create_or_open(home.root, "p", "postgresql://h/d")


def test_a_newer_home_is_refused(home: Home) -> None:
    record = json.loads((home.root / "home.json").read_text())
    (home.root / "home.json").write_text(json.dumps({**record, "version": HOME_VERSION + 1}))
    with pytest.raises(HomeUnusable, match="newer Rekindle") as caught:
        open_home(home.root)
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}'])
def test_a_damaged_record_is_refused(home: Home, content: str) -> None:
    (home.root / "home.json").write_text(content)
    with pytest.raises(HomeUnusable, match=r"home\.json cannot be read"):
        open_home(home.root)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(HomeUnusable, match="not a Rekindle home"):
        create_or_open(tmp_path, "p", None)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_who_dies_while_making_a_home_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    for name in ("streams", "work", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / ".home.json.77.tmp").write_text('{"ver')
    assert create_or_open(tmp_path, "p", None).pipeline == "p"


def test_of_two_who_make_a_home_both_get_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle import home as module

    create, first = module.durable_create, []

    def outrun(path: Path, content: bytes) -> None:
        monkeypatch.setattr(module, "durable_create", create)
        first.append(create_or_open(tmp_path / "home", "p", None))
        create(path, content)

    monkeypatch.setattr(module, "durable_create", outrun)
    assert [create_or_open(tmp_path / "home", "p", None)] == first


@pytest.mark.parametrize("name", ["a*b", "a[1]", "a{b", "a:b", "a?"])
def test_a_path_that_spark_would_take_for_a_pattern_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HomeUnusable, match="takes for a pattern"):
        create_or_open(tmp_path / name, "p", None)
    assert not (tmp_path / name).exists()


def test_no_home(tmp_path: Path) -> None:
    with pytest.raises(HomeUnusable, match="no Rekindle home here"):
        open_home(tmp_path / "nowhere")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "streams/../../x"])
def test_nothing_leads_out_of_the_home(home: Home, path: str) -> None:
    with pytest.raises(HomeUnusable, match="leads out of the home"):
        home.inside(path)


def test_one_supervisor_a_home_and_a_dead_one_holds_nothing(home: Home) -> None:
    lock = HomeLock(home)
    with pytest.raises(HomeInUse, match=f"process {os.getpid()}"):
        HomeLock(home)
    lock.release()
    program = (
        "import os, sys; from pathlib import Path; from rekindle.home import *;"
        "lock = HomeLock(open_home(Path(sys.argv[1]))); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(home.root)], check=False)
    assert killed.returncode == -9
    assert (home.root / "supervisor.lock").read_text() != f"{os.getpid()}\n"
    HomeLock(home).release()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:5432/d", "postgresql://u@h:5432/d"),
        ("postgresql://u:s3@cret@h/d", "postgresql://u@h/d"),
        ("postgresql://u:s/cre?t@h/d", "postgresql://u@h/d"),
        ("postgresql://:secret@h/d", "postgresql://@h/d"),
        ("postgresql://u@h/d?password=secret", "postgresql://u@h/d?"),
        ("postgresql://u@h/d?password=secret&x=1", "postgresql://u@h/d?x=1"),
        ("postgresql://u@h/d?x=1&sslpassword=secret", "postgresql://u@h/d?x=1"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("sqlite", "sqlite"),
    ],
)
def test_passwords_are_left_out(url: str, shown: str) -> None:
    assert without_password(url).rstrip("?") == shown.rstrip("?")
    assert "secret" not in without_password(url)


def test_no_password_in_the_home(tmp_path: Path) -> None:
    root = tmp_path / "home"
    create_or_open(root, "p", "postgresql://u:hunter2@h/d")
    assert "hunter2" not in (root / "home.json").read_text()


def test_a_file_is_made_once_and_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable_create(tmp_path / "f", b"first")
    durable_create(tmp_path / "f", b"second")
    assert (tmp_path / "f").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["f"]

    def fails(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        durable_create(tmp_path / "g", b"new")
    assert not (tmp_path / "g").exists()
