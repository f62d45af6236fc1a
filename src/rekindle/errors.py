"""Errors that people see.

Every error has a primary line (what happened, and to what), an optional detail (where, and the facts)
and a hint (what to do). The command line prints exactly these three and exits with ``exit_code``.
"""

from __future__ import annotations


class RekindleError(Exception):
    """What happened (``primary``), where (``detail``), what to do (``hint``)."""

    exit_code = 1

    def __init__(self, primary: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(primary)
        self.primary = primary
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.primary]
        if self.detail:
            parts.append(self.detail)
        if self.hint:
            parts.append(f"Hint: {self.hint}")
        return "\n".join(parts)


class BrokenInvariant(RekindleError):
    """A record or a caller breaks a rule of the design. Always a bug or damage, never retried."""


class StillNeeded(BrokenInvariant):
    """What was to be trimmed is needed by somebody on record, who is named."""


class DeclarationError(RekindleError):
    """The pipeline file is wrong: an unknown input, a cycle, a bad name, an impossible option."""

    exit_code = 2


class NoJava(RekindleError):
    """There is no Java that Spark can run on. Starting again cannot help."""

    exit_code = 2


class FragmentFailed(RekindleError):
    """A fragment stopped for good: its user code raised, or its input cannot be read."""

    exit_code = 3


class HomeInUse(RekindleError):
    """Another supervisor runs on this home."""

    exit_code = 4


class HomeUnusable(RekindleError):
    """The home was made by a newer version, belongs to another pipeline, or is damaged."""

    exit_code = 4


class KeeperUnavailable(RekindleError):
    """The keeper did not answer within the time that the caller was willing to wait."""

    exit_code = 5


class Fenced(RekindleError):
    """This incarnation was replaced: it may not claim, publish or deliver any more."""

    exit_code = 6


class EpochTrimmed(RekindleError):
    """An epoch is asked for that was trimmed: it was older than its stream keeps, and nobody on record needed it."""

    exit_code = 3


class SegmentDamaged(RekindleError):
    """A segment that an epoch's record names is missing, or is not what was published."""

    exit_code = 3


class StateDamaged(RekindleError):
    """A checkpoint lacks files that its epoch needs, or no store has a good copy of them."""

    exit_code = 3


class PythonWorkerDied(RekindleError):
    """A process in which Spark ran the user's Python ended without an exception: it crashed, or was killed."""

    exit_code = 3


class SourceError(RekindleError):
    """A source cannot be read, or holds something that cannot be understood."""

    exit_code = 3


class SinkError(RekindleError):
    """A sink did not take an epoch."""

    exit_code = 3
