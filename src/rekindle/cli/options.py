"""Options and arguments that several commands share, so that they mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HomeOption = Annotated[
    Path,
    typer.Option("--home", envvar="REKINDLE_HOME", help="The folder that holds everything a pipeline leaves on disk."),
]
DEFAULT_HOME = Path("rekindle-home")

KeeperOption = Annotated[
    str | None,
    typer.Option(
        "--keeper",
        envvar="REKINDLE_KEEPER",
        show_envvar=True,
        metavar="URL",
        help="The keeper's address, postgresql://...; SQLite in the home if none was ever given.",
    ),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")]
