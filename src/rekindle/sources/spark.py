"""Any other source that Spark can stream from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rekindle.errors import BrokenInvariant, DeclarationError, SourceError
from rekindle.home import without_password
from rekindle.keeper.records import Position
from rekindle.sources.base import Reader, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SECRET = re.compile(r"pass|pwd|secret|token|key|credential|jaas|auth|private|sas\b|signature", re.IGNORECASE)


class Spark(Source):
    """``spark.readStream.format(format).options(**options)``, for sources that Rekindle has no reader for.

    Its node runs it as a structured streaming query of its own, and Spark's checkpoint is the authority
    on what was read. What a source of this kind brings twice after a crash comes twice: use one that
    replays its offsets. Option values that look like secrets never appear in ``describe`` or ``repr``.
    """

    def __init__(
        self, format: str, options: Mapping[str, Any] | None = None, schema: str | StructType | None = None
    ) -> None:
        if not isinstance(format, str) or not format.strip():
            raise DeclarationError(f"the format of a Spark source must be its name, not {format!r}")
        if format.strip().lower() == "rekindle":
            raise DeclarationError(
                "a Rekindle stream is not an outside source",
                hint="name the stream as a parameter of the operator that reads it",
            )
        for name, value in (options or {}).items():
            if not isinstance(name, str) or not isinstance(value, str | int | float | bool):
                raise DeclarationError(f"the option {name!r} of a Spark source must be a string, a number or a bool")
        self.format = format.strip()
        self.options: dict[str, str] = {name: _text(value) for name, value in (options or {}).items()}
        self.declared_schema = schema

    def schema(self, spark: SparkSession) -> Any:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        stream = spark.readStream.format(self.format).options(**self.options)
        if self.declared_schema is not None:
            stream = stream.schema(self.declared_schema)
        try:
            return stream.load().schema
        except (PySparkException, Py4JJavaError) as error:
            # Not chained: Spark's own message may hold any option's value.
            text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
            raise SourceError(
                f"Spark cannot read the source {self.describe()}",
                detail=self.without_secrets((text.strip().splitlines() or [type(error).__name__])[0]),
                hint="check the format's name, its options, and that its package is on Spark's class path",
            ) from None

    def open(self, history: Iterable[Position]) -> Reader:
        raise BrokenInvariant("a Spark source is read by a streaming query, never opened", detail=self.describe())

    @property
    def guarantee(self) -> str:
        return "precise if the source replays its offsets"

    @property
    def needs_history(self) -> bool:
        return False

    @property
    def has_rejects(self) -> bool:
        return False

    def describe(self) -> str:
        shown = [f"{name}={_shown(name, value)}" for name, value in sorted(self.options.items())]
        return " ".join([f"spark {self.format}", *shown])

    def without_secrets(self, text: str) -> str:
        """What Spark says of this source, without the values of its options that look like secrets."""
        for name, value in self.options.items():
            shown = _shown(name, value)
            if shown != value and value:
                text = text.replace(value, shown)
        return text

    def __repr__(self) -> str:
        return f"<{self.describe()}>"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(name: str, value: str) -> str:
    return "***" if SECRET.search(name) else without_password(value)
