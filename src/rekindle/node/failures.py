"""Why a Spark job or query failed, as a person should read it."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.errors import SegmentDamaged
from rekindle.home import Home
from rekindle.node.claims import Work
from rekindle.streams.segments import verify

STATE_CONDITIONS = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE", "CHECKPOINT", "STDS_", "MISSING_METADATA")


class OperatorFailed(Exception):
    """A user's operator raised while Spark ran it; the text holds the user's own traceback."""


def spark_cause(error: BaseException) -> BaseException:
    """The user's Python traceback, if Spark carried one here; otherwise Spark's error without its JVM frames."""
    text = _java_text(error) if isinstance(error, Py4JJavaError) else str(error)
    mark = text.rfind("Traceback (most recent call last)")
    if mark >= 0:
        lines = text[mark:].splitlines()
        end = next(
            (i for i, line in enumerate(lines) if line.lstrip().startswith("at ") or not line.strip()), len(lines)
        )
        kept = lines[:end]
        return OperatorFailed(f"{kept[-1].strip()}\n" + "\n".join(kept))
    if isinstance(error, PySparkException | Py4JJavaError):
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "JVM stacktrace"))]
        return OperatorFailed("\n".join(lines))
    return error


def _java_text(error: Py4JJavaError) -> str:
    """What the JVM's exceptions say, the outermost first; py4j itself only says which call failed."""
    lines, exception = [], error.java_exception
    while exception is not None:
        lines += [line for line in str(exception.toString()).splitlines() if line not in lines]
        exception = exception.getCause()
    return "\n".join(lines)


def damaged_input(home: Home, work: Work | None) -> SegmentDamaged | None:
    """The first segment of the epoch in hand that is not what was published, if there is one."""
    for records in work.inputs.values() if work is not None else ():
        for record in records:
            for segment in record.output.segments:
                try:
                    verify(home, segment, stream=record.stream, epoch=record.epoch)
                except SegmentDamaged as damage:
                    return damage
    return None


def is_of_user(error: BaseException) -> bool:
    """Whether the user's own code, or damaged input, is the cause: no other checkpoint would help."""
    return isinstance(error, SegmentDamaged) or "Traceback (most recent call last)" in str(error)


def is_about_state(error: BaseException) -> bool:
    """Whether Spark could not read the checkpoint or its state, rather than compute."""
    text = str(error)
    return any(f"[{condition}" in text or f".{condition}" in text for condition in STATE_CONDITIONS)
