"""CPU seconds and memory of processes that come and go."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest

from bench._usage import Usage, interpolated


@pytest.mark.parametrize(("when", "value"), [(-1.0, 1.0), (0.0, 1.0), (5.0, 2.0), (10.0, 3.0), (99.0, 3.0)])
def test_between_two_looks_it_is_a_line(when: float, value: float) -> None:
    assert interpolated([0.0, 10.0], [1.0, 3.0], when) == pytest.approx(value)


def test_no_look_is_nothing() -> None:
    assert interpolated([], [], 1.0) == 0.0


def test_what_a_process_used_stays_counted_when_it_is_gone() -> None:
    looks: Iterator[list[psutil.Process]] = iter([[psutil.Process(os.getpid())], []])
    usage = Usage(lambda: next(looks))
    usage.look()
    usage.look()
    assert usage.cpu_s[0] > 0 and usage.cpu_s == [usage.cpu_s[0]] * 2
    assert usage.peak_bytes == usage.memory_bytes[0] > 0 and usage.memory_bytes[1] == 0
