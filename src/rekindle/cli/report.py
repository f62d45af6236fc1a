"""How errors and lines reach people and scripts: nothing here knows any command."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback
from typing import IO, TYPE_CHECKING, Any, cast

import orjson

from rekindle.errors import RekindleError

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FULL = (errno.ENOSPC, errno.EDQUOT)


def without_secrets(text: str) -> str:
    """Text without the passwords of any addresses in it."""
    text = re.sub(r"(//[^/@:\s]*):[^@\s]*@", r"\1@", text)
    return re.sub(r"\b(\w*password)=[^&\s'\"]*", r"\1=***", text, flags=re.IGNORECASE)


def plain(text: str) -> str:
    """Text from outside, fit for a terminal: control characters, which could steer it, are shown as escapes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def plain_line(text: str) -> str:
    """The same on one line."""
    return plain(text).replace("\n", "\\n").replace("\t", " ")


def print_json(value: Any) -> None:
    """One JSON value on one line of stdout. What JSON does not know is written as text."""
    sys.stdout.write(_json_line(value))


def _json_line(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode() + "\n"


def print_line(text: str = "") -> None:
    """One line of stdout, as it is: never wrapped."""
    sys.stdout.write(text + "\n")


def out() -> Console:
    """Stdout for tables. A reader that went away is for the caller to see, not for Rich to end the process."""
    from rich.console import Console

    class Out(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Out(highlight=False)


def say(text: str = "") -> None:
    """The same, at once. Never fails, see ``tell``: for commands that do more than print."""
    tell(sys.stdout, text + "\n")


def say_json(value: Any) -> None:
    """One JSON value, said in the same way."""
    tell(sys.stdout, _json_line(value))


def note(text: str) -> None:
    """One line for people, on stderr. Never fails, see ``tell``."""
    tell(sys.stderr, text + "\n")


def tell(stream: IO[str], text: str) -> None:
    """Write for whoever listens. Never fails: a stream whose terminal or reader went away is silent from then on."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError) as error:
        if not isinstance(error, OSError) or error.errno not in _FULL:  # a disk may have room again
            silence(stream)


class Outlet:
    """A stream that never fails, for Rich to write to."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        tell(self._stream, text)
        return len(text)

    def flush(self) -> None:
        """It is flushed by each write."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def outlet(stream: IO[str]) -> IO[str]:
    return cast(IO[str], Outlet(stream))


def error_record(error: RekindleError) -> dict[str, Any]:
    """What ``--json`` prints of an error, under the key 'error'."""
    return {
        "kind": type(error).__name__,
        "primary": without_secrets(error.primary),
        "detail": without_secrets(error.detail),
        "hint": without_secrets(error.hint),
        "exit_code": error.exit_code,
    }


def print_error(error: RekindleError, *, as_json: bool) -> None:
    """Primary, detail and hint: in red and plain on stderr, or as JSON on stdout. Never fails, see ``tell``."""
    if as_json:
        say_json({"error": error_record(error)})
        return
    from rich.console import Console
    from rich.text import Text

    record = error_record(error)
    console = Console(file=outlet(sys.stderr), highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), (plain(record["primary"]), "red")))
    if error.detail:
        console.print(Text(plain(record["detail"])))
    if error.hint:
        console.print(Text.assemble(("hint: ", "bold"), plain(record["hint"])))


def unexpected(error: BaseException) -> RekindleError:
    """An error that nobody foresaw, as one that people can read; its traceback goes to a file of its own."""
    text = without_secrets("".join(traceback.format_exception(error)))
    try:
        fd, path = tempfile.mkstemp(prefix="rekindle-error-", suffix=".txt")
        with os.fdopen(fd, "w") as file:
            file.write(text)
        where = f"the full traceback is in {path}"
    except OSError as failed:
        where = f"the traceback could not be written: {failed.strerror}"
    reason = str(error).strip().splitlines()
    return RekindleError(
        f"unexpected {type(error).__name__}: {reason[0]}" if reason else f"unexpected {type(error).__name__}",
        detail=where,
        hint="this is a defect of Rekindle; 'rekindle --debug ...' shows the traceback at once",
    )


def silence(stream: IO[str]) -> None:
    """After the reader of a stream went away: what is still to be written goes nowhere, without a complaint."""
    try:
        fd = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, fd)
    os.close(nowhere)


def open_standard_streams() -> None:
    """Who was started without some of stdin, stdout and stderr gets /dev/null for them: nothing else must take their
    place."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115 - open to the end
