"""The ``rekindle`` command: its commands by name, each imported only when it is called.

``rekindle --help`` and a mistyped command answer at once, since Spark and pyarrow are not imported before a
command needs them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rekindle.cli.report import open_standard_streams, print_error, silence, unexpected
from rekindle.errors import RekindleError

COMMANDS = {
    "run": "Run a pipeline file until Ctrl-C, and resume where the home's last run ended.",
    "status": "Show a home's streams, nodes, sinks, replicas and failures.",
    "read": "Print the rows of a stream.",
    "explain": "Show a pipeline file's graph, its fragments and the guarantee of each stream.",
    "events": "List what happened: what died, when it was noticed, who took over.",
    "logs": "Print the logs of nodes.",
    "kill": "SIGKILL a node of this host, to practise.",
    "audit": "Check a home: its records, its files, and published epochs computed once more.",
    "stop": "Ask the nodes of a home to drain to an epoch boundary and leave.",
    "verify": "Run a pipeline file with faults in scratch homes, and tell what guarantee it really has.",
    "soak": "Run a pipeline with every recovery policy under random faults, and check every row.",
    "demo": "Run the demonstration: a node is killed while you watch, then the output is checked.",
}
"""Each is the function of the same name in the module of the same name in this room."""

PRINTING = ("status", "read", "explain", "events", "logs", "audit")
"""They do nothing but print: a reader that goes away has seen enough."""

EXIT_CODES = (
    "Exit codes: 0 done; 1 any other error; 2 the command line or the pipeline file is wrong, or Java 17 is missing; "
    "3 a fragment, a source, a sink or a segment failed; 4 the home is in use or unusable; "
    "5 the keeper does not answer; 6 fenced; 130 interrupted by Ctrl-C, all but run, which drains: 0, or 3."
)


class Commands(TyperGroup):
    """A group whose commands are imported when they are called, and that prints errors for people."""

    _only_listing = False

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._only_listing or cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        function: Callable[..., Any] = getattr(importlib.import_module(f"rekindle.cli.{cmd_name}"), cmd_name)
        single = typer.Typer(add_completion=False)
        single.command(cmd_name)(function)
        command = typer.main.get_command(single)
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._only_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._only_listing = False

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in ctx.args
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (typer.Exit, typer.Abort, typer.TyperException, SystemExit):
            raise
        except RekindleError as error:
            failure = error
        except Exception as error:
            if isinstance(error, BrokenPipeError) and ctx.invoked_subcommand in PRINTING:
                silence(sys.stdout)
                raise typer.Exit(0) from None
            if ctx.params.get("debug"):
                raise
            failure = unexpected(error)
        print_error(failure, as_json=as_json)
        raise typer.Exit(failure.exit_code)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Crash-tolerant, highly available PySpark streaming pipelines.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version("rekindle")
        except PackageNotFoundError:
            found = "of an unknown version: it runs from its sources, not installed"
        sys.stdout.write(f"rekindle {found}\n")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options before the command are for all commands; Commands.invoke reads them."""


def _listed() -> None:
    """What stands for a command in a listing."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_listed)


def main() -> None:
    """Run the command line; ends the process with an exit code."""
    open_standard_streams()
    app(prog_name="rekindle")
