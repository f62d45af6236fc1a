"""What a node said last, and what it must not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.supervisor.logs import complaint, tail, without_secrets


def test_the_tail_of_no_log_and_of_a_long_one(tmp_path: Path) -> None:
    assert tail(tmp_path / "none.log") == []
    log = tmp_path / "long.log"
    log.write_bytes(b"\xff\n" + b"".join(b"line %d\n\n" % n for n in range(10_000)))
    assert tail(log, 3) == ["line 9997", "line 9998", "line 9999"]


def test_an_error_that_a_node_logged_is_taken_apart() -> None:
    error = complaint(
        [
            "2026-01-01 10:00:00,123 ERROR MainThread something before",
            "2026-01-01 10:00:01,123 ERROR MainThread stream 'a' has another schema",
            "p.py:3",
            "now: x",
            "Hint: give it a new name",
        ]
    )
    assert (error.primary, error.detail, error.hint) == (
        "stream 'a' has another schema",
        "p.py:3\nnow: x",
        "give it a new name",
    )


def test_another_error_is_shown_as_it_is() -> None:
    assert complaint(["usage: ...", "unknown argument"]).detail == "usage: ...\nunknown argument"
    assert complaint([]).primary


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("postgresql://me:hun%2Fter2@host/x", "at postgresql://me:hun%2Fter2@host/x, with hun/ter2"),
        ("postgresql://me@host/x?password=hunter2", "at postgresql://me@host/x?password=hunter2"),
    ],
)
def test_no_password(url: str, line: str) -> None:
    shown = without_secrets(line, url)
    assert "ter2" not in shown
    assert "host/x" in shown


@pytest.mark.parametrize("url", [None, "sqlite:////home/x/keeper.db", "postgresql://me@host/x"])
def test_nothing_to_hide(url: str | None) -> None:
    assert without_secrets(f"at {url}", url) == f"at {url}"
