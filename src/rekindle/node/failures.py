"""Why a Spark job or query failed, as a person should read it."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.errors import PythonWorkerDied, SegmentDamaged, StateDamaged
from rekindle.home import Home
from rekindle.node.claims import Work
from rekindle.streams.segments import verify

PYTHON_WORKER_DIED = "Python worker exited unexpectedly"
AFTER_CRASH = ("Extension modules:", "Caused by:", "Driver stacktrace:")
TRACEBACK = "Traceback (most recent call last)"
STATE_CONDITIONS = ("CANNOT_LOAD_STATE_STORE", "STATE_STORE", "CHECKPOINT", "STDS_", "MISSING_METADATA")


class OperatorFailed(Exception):
    """A user's operator raised while Spark ran it; the text holds the user's own traceback."""


def spark_cause(error: BaseException) -> BaseException:
    """The user's Python traceback, if Spark carried one here; otherwise Spark's error without its JVM frames."""
    text = _java_text(error) if isinstance(error, Py4JJavaError) else str(error)
    mark = text.rfind(TRACEBACK)
    if mark >= 0:
        lines = text[mark:].splitlines()
        end = next(
            (i for i, line in enumerate(lines) if line.lstrip().startswith("at ") or not line.strip()), len(lines)
        )
        kept = lines[:end]
        return OperatorFailed(f"{kept[-1].strip()}\n" + "\n".join(kept))
    if isinstance(error, PySparkException | Py4JJavaError):
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "JVM stacktrace"))]
        return _python_worker_died(lines) or OperatorFailed("\n".join(lines))
    return error


def _python_worker_died(lines: list[str]) -> PythonWorkerDied | None:
    """The death of a Python worker, if that is what Spark says, with where its Python was if it could still tell."""
    found = next((i for i, line in enumerate(lines) if PYTHON_WORKER_DIED in line), None)
    if found is None:
        return None
    end = next((i for i, line in enumerate(lines[found:], found) if line.startswith(AFTER_CRASH)), len(lines))
    told = "\n".join(lines[found:end]).rstrip()
    return PythonWorkerDied(
        "a Python worker of Spark died without an exception",
        detail=told[told.index(PYTHON_WORKER_DIED) :],
        hint="native code of a library crashed, or the kernel killed it for memory (dmesg says so)",
    )


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
    return isinstance(error, SegmentDamaged | PythonWorkerDied) or TRACEBACK in str(error)


def is_about_state(error: BaseException) -> bool:
    """Whether a checkpoint or its state could not be read, by Spark or out of the stores, rather than computed on."""
    text = str(error)
    return isinstance(error, StateDamaged) or any(
        f"[{condition}" in text or f".{condition}" in text for condition in STATE_CONDITIONS
    )
