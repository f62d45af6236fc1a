from __future__ import annotations

import pytest

from rekindle.cli.durations import parse_duration, show_duration
from rekindle.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30.0), ("5m", 300.0), ("2h", 7200.0), ("1d", 86400.0), ("1.5s", 1.5), (" 3s ", 3.0)],
)
def test_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "30", "s", "30 s", "-3s", "0s", "0.0ms", "1e3s", "5M", "3s4", "nans", "३s", "1.s"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        parse_duration(text, what="--for")
    assert f"--for {text!r}" in refused.value.primary
    assert "30s" in refused.value.hint


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0ms"), (0.5, "500ms"), (4.21, "4.2s"), (200, "3m20s"), (3720, "1h02m")]
)
def test_shown_in_one_word(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text
