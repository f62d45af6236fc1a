from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest

from rekindle.errors import DeclarationError
from rekindle.sinks import Console
from tests.sinks.deliveries import delivery, words


def shown(tmp_path: Path, table: pa.Table, rows: int, epoch: int = 12) -> str:
    out = io.StringIO()
    sink = Console(rows, file=out)
    sink.open().deliver(delivery(tmp_path, table, epoch, segments=2))
    return out.getvalue()


def test_an_epoch_is_shown_with_its_number_and_row_count(tmp_path: Path) -> None:
    text = shown(tmp_path, words(12, 30), 3)
    assert "counts · epoch 12 · 30 rows" in text
    assert "w12-2" in text
    assert "w12-3" not in text
    assert "and 27 more" in text


def test_values_are_data_not_markup(tmp_path: Path) -> None:
    assert "[bold]x[/bold]" in shown(tmp_path, pa.table({"[red]a": ["[bold]x[/bold]", None]}), 5)


def test_an_epoch_without_rows_is_shown(tmp_path: Path) -> None:
    assert "0 rows" in shown(tmp_path, words(1, 0), 5)


def test_rows_must_be_a_number() -> None:
    with pytest.raises(DeclarationError):
        Console(-1)


def test_it_says_where_to_look() -> None:
    told = Console(5).describe()
    assert told == "console: the first 5 rows of each epoch, into the log of its node (rekindle logs NODE)"
    assert "log" not in Console(file=io.StringIO()).describe()
