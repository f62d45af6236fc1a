from __future__ import annotations

import time
from pathlib import Path

import pytest

from rekindle.clock import VARIABLE, shift_s, wall


def test_the_clock_is_shifted_by_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    before = time.time()
    assert before <= wall() <= time.time()
    file = tmp_path / "clock"
    monkeypatch.setenv(VARIABLE, str(file))
    assert before <= wall() <= time.time()  # nothing is asked for yet
    file.write_text("3600")
    assert before + 3600 <= wall() <= time.time() + 3600
    file.write_text("-3600\n")
    assert before - 3600 <= wall() <= time.time() - 3600
    file.write_text("later")
    assert shift_s(file) == 0
