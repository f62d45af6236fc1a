"""``rekindle audit``: a home checked against its own records, and what to do about what is found."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.opened import address_of, opened
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import note, out, outlet, plain, plain_line, print_json, print_line
from rekindle.errors import DeclarationError, RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.verify.audit import Audit, Tell, Wish
from rekindle.verify.code import Code, code_of
from rekindle.verify.findings import WRONG, Finding, Report

NICE = 10
_RANGE = re.compile(r"(\d+)\.\.(\d+)\Z")


def audit(
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    streams: Annotated[str, typer.Option("--streams", metavar="A,B", help="Only these streams.")] = "",
    epochs: Annotated[str, typer.Option("--epochs", metavar="N..M", help="Only these epochs of each stream.")] = "",
    last: Annotated[int | None, typer.Option("--last", min=1, help="Only the newest so many epochs of each.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="The pipeline file; the one that was last run, unless given.")
    ] = None,
    recompute: Annotated[
        bool, typer.Option("--recompute/--no-recompute", help="Compute published epochs once more, and compare.")
    ] = True,
    determinism: Annotated[
        bool, typer.Option("--determinism", help="Check instead that computing epochs in another way changes nothing.")
    ] = False,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores to recompute with.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Check a home, live or stopped: its records, its files, and published epochs computed once more.

    Nothing is changed, and a run that goes on is not waited for. The exit code is 1 if anything is wrong.
    """
    wish = _wish(streams, epochs, last)
    os.nice(NICE)
    with opened(home, keeper, read_only=True) as (place, records):
        code = code_of(place, records, file, cores) if recompute or determinism else None
        with progress() as tell:
            if code is not None and determinism:
                report = _determinism(place, records, code, wish, cores, address_of(place, keeper), tell)
            else:
                report = Audit(place, records, wish, code, tell).run()
    if as_json:
        print_json({"home": str(place.root), "pipeline": place.pipeline, **report.to_json()})
    else:
        show(report)
    if report.wrong:
        raise typer.Exit(RekindleError.exit_code)


def _determinism(
    home: Home, keeper: Keeper, code: Code, wish: Wish, cores: int, keeper_url: str | None, tell: Tell
) -> Report:
    from rekindle.verify.determinism import EPOCHS, check_determinism

    if wish.last is None and wish.through is None:
        wish = replace(wish, last=EPOCHS)
    return check_determinism(code, home, keeper, wish=wish, cores=cores, keeper_url=keeper_url, tell=tell)


def _wish(streams: str, epochs: str, last: int | None) -> Wish:
    names = frozenset(name.strip() for name in streams.split(",") if name.strip())
    if epochs and last is not None:
        raise DeclarationError("--epochs and --last exclude each other")
    if not epochs:
        return Wish(names, last=last)
    found = _RANGE.match(epochs)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise DeclarationError(
            f"--epochs {epochs!r} is not a range of epochs", hint="two numbers from 1 on: --epochs 10..20"
        )
    return Wish(names, int(found[1]), int(found[2]))


# -- showing ---------------------------------------------------------------------------------------------


@contextmanager
def progress() -> Iterator[Tell]:
    """A bar on stderr if that is a terminal; a line for each part otherwise."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=outlet(sys.stderr)), transient=True) as bars:
            task = bars.add_task("looking", total=None)
            yield lambda what, done, total: bars.update(task, description=what, completed=done, total=max(total, 1))
    else:
        yield _lines()


def _lines() -> Tell:
    told = ""

    def tell(what: str, done: int, total: int) -> None:
        nonlocal told
        if what != told:
            told = what
            note(f"{what}: {total:,}")

    return tell


def show(report: Report) -> None:
    """The table of what was checked, then every finding: what is wrong first."""
    from rich.table import Table

    table = Table("check", "of", "checked", "wrong", "")
    for line in report.checked:
        shown = f"[red]{line.wrong}[/red]" if line.wrong else "0"
        table.add_row(line.check, line.subject, f"{line.count:,} {line.unit}", shown, line.remark)
    out().print(table)
    for finding in sorted(report.findings, key=lambda f: f.level != WRONG):
        for text in lines(finding):
            print_line(text)
    wrong, notes = len(report.wrong), len(report.findings) - len(report.wrong)
    print_line(f"{wrong} wrong, {notes} to note" if report.findings else "nothing is wrong")


def lines(finding: Finding) -> Iterator[str]:
    yield plain_line(f"{finding.level}: {finding.what}")
    for mark, rows in (
        ("expected  ", finding.expected),
        ("computed  ", finding.found),
    ):
        for row in rows:
            yield "    " + plain_line(mark + row)
    yield from (f"    {text}" for text in plain(finding.where).splitlines())
    yield "    " + plain_line(f"hint: {finding.hint}")
