"""Delivery, as far as it needs no Spark session."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from rekindle.errors import DeclarationError
from rekindle.node.deliver import Deliver
from rekindle.pipeline import Pipeline
from tests.keeper.place import Place, epochs, stream


def test_a_sink_that_took_one_stream_is_not_given_another(tmp_path: Path) -> None:
    keeper = Place(tmp_path, None).open()
    by = keeper.enlist("main", code="c")
    for name in ("old", "new"):
        keeper.record_stream(stream(name))
        epochs(keeper, name, 2, by)
    keeper.record_delivery("out", "old", 1, by=by)  # type: ignore[arg-type]
    opened: list[bool] = []
    sink = SimpleNamespace(open=lambda: opened.append(True))
    declaration: Any = SimpleNamespace(name="out", stream="new", sink=sink, node="main", place="p.py:1")
    analysis = SimpleNamespace(schemas={"new": StructType()})
    context: Any = SimpleNamespace(pipeline=Pipeline("p"), keeper=keeper, analysis=analysis, stopping=threading.Event())
    with pytest.raises(DeclarationError, match="it has taken epochs of 'old'"):
        Deliver(context, declaration).work()
    assert not opened
