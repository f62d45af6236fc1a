from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rekindle.errors import DeclarationError
from rekindle.sinks import Foreach
from tests.sinks.deliveries import delivery, words


def test_the_function_gets_all_rows_in_order_and_the_same_key_every_time(tmp_path: Path) -> None:
    calls: list[tuple[pa.Table, str]] = []
    sink = Foreach(lambda rows, key: calls.append((rows, key)))
    epoch = delivery(tmp_path, words(4, 10), 4, segments=3)
    sink.open().deliver(epoch)
    sink.open().deliver(epoch)
    assert [key for _, key in calls] == ["shop/home1/counts_sink/4"] * 2
    assert all(rows.equals(words(4, 10)) for rows, _ in calls)
    assert sink.guarantee == "at-least-once"


def test_what_the_function_raises_comes_through(tmp_path: Path) -> None:
    def refuse(rows: pa.Table, key: str) -> None:
        raise KeyError(key)

    with pytest.raises(KeyError, match="shop/home1/counts_sink/1"):
        Foreach(refuse).open().deliver(delivery(tmp_path, words(1)))


def test_only_a_function_will_do() -> None:
    not_a_function: Any = "print"
    with pytest.raises(DeclarationError, match="takes a function"):
        Foreach(not_a_function)
