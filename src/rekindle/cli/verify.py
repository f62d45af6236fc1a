"""``rekindle verify``: what guarantee a pipeline really has, found out by running it with faults."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rekindle.cli.durations import parse_duration
from rekindle.cli.interrupt import INTERRUPTED, interruptible
from rekindle.cli.report import note, out, outlet, plain, print_json, say
from rekindle.errors import DeclarationError
from rekindle.verify.faults import KINDS

if TYPE_CHECKING:
    from rich.progress import Progress

    from rekindle.verify.experiment import View
    from rekindle.verify.report import Report

RECORDED = "recorded"
POSTGRESQL = "postgresql"
SQLITE = "sqlite"
WIDTH = 120
LINE_S = 5.0
USUAL = "kill-node,kill-jvm,kill-supervisor,kill-all,stop-node,step"


def verify(
    file: Annotated[Path, typer.Argument(help="The Python file that declares the pipeline.")],
    runs: Annotated[int, typer.Option("--runs", min=1, help="How many runs with faults.")] = 3,
    per_run: Annotated[int, typer.Option("--per-run", min=1, help="How many faults in each.")] = 2,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same schedule of faults.")] = 0,
    faults: Annotated[
        str, typer.Option("--faults", metavar="A,B,...", help=f"Of these kinds, or 'all': {', '.join(KINDS)}.")
    ] = USUAL,
    apart: Annotated[
        bool, typer.Option("--apart", help="Faults of one kind only in each run; the kinds take turns.")
    ] = False,
    given: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="DIR|recorded",
            help="'recorded': a copy of the files that its file sources would read now; or a folder with a folder "
            "for each of them, by the source's name.",
        ),
    ] = RECORDED,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long sources that never end bring input.")
    ] = "10s",
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="At most so many rows of each generator.")] = None,
    keeper: Annotated[
        str,
        typer.Option(
            "--keeper", metavar="sqlite|postgresql", help="postgresql: a scratch server, with the programs found here."
        ),
    ] = SQLITE,
    real_sinks: Annotated[
        bool,
        typer.Option("--real-sinks", help="Also call the sinks that cannot deliver into a folder, such as Foreach."),
    ] = False,
    determinism: Annotated[
        bool,
        typer.Option("--determinism/--no-determinism", help="Also compute epochs again in other ways, and compare."),
    ] = True,
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="Cores of each node.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all of it as JSON; '-' prints it.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page with the timelines.")
    ] = None,
    markdown_file: Annotated[
        Path | None,
        typer.Option(
            "--markdown", metavar="FILE", help="Put the table of faults and verdicts into this page, after each run."
        ),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the scratch homes in a new DIR.")
    ] = None,
) -> None:
    """Find out what guarantee a pipeline really has.

    It runs once undisturbed and then with faults, in scratch homes and with its sinks redirected there: what it
    delivers to does not see any of it. Every run makes the same claims, so every epoch is compared. Exit code 1 if a
    stream or a sink did not give what it promises.
    """
    from rekindle.verify.experiment import Request
    from rekindle.verify.experiment import verify as experiment
    from rekindle.verify.markdown import put_table
    from rekindle.verify.schedule import parse_kinds

    kinds = KINDS if faults == "all" else parse_kinds(faults)
    source_s = parse_duration(for_, what="--for")
    if keeper not in (SQLITE, POSTGRESQL):
        raise DeclarationError(f"--keeper {keeper!r} is not a kind of keeper", hint=f"{SQLITE} or {POSTGRESQL}")

    def so_far(report: Report) -> None:
        if markdown_file is not None:
            put_table(report, markdown_file)

    with _folder(keep) as folder, interruptible(), view_for(as_json=json_file == Path("-")) as view:
        request = Request(
            file=file,
            folder=folder,
            kinds=kinds,
            runs=runs,
            per_run=per_run,
            seed=seed,
            source_s=source_s,
            rows_max=rows,
            given=None if given == RECORDED else Path(given),
            real_sinks=real_sinks,
            apart=apart,
            cores=cores,
            postgres=keeper == POSTGRESQL,
            determinism=determinism,
        )
        try:
            report = experiment(request, view, so_far)
        except KeyboardInterrupt:
            note("interrupted; everything that was started has ended")
            raise typer.Exit(INTERRUPTED) from None
    tell(report, json_file, html_file)
    if keep is not None:
        note(f"kept: {keep}")
    raise typer.Exit(0 if report.holds else 1)


def tell(report: Report, json_file: Path | None, html_file: Path | None) -> None:
    """The table, and the files that were asked for."""
    import orjson

    from rekindle.verify.page import page
    from rekindle.verify.table import conclusion, examples, table

    if json_file == Path("-"):
        print_json(report.to_json())
    else:
        console = out()
        if not console.is_terminal:
            console.width = WIDTH
        console.print(table(report))
        for line in examples(report):
            say(plain(line))
        for line in conclusion(report):
            say(plain(line))
        if json_file is not None:
            json_file.write_bytes(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2))
    if html_file is not None:
        html_file.write_text(page(report), encoding="utf-8")


@contextmanager
def view_for(*, as_json: bool) -> Iterator[View]:
    """A progress bar in a terminal; lines on stderr otherwise."""
    if as_json or not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=outlet(sys.stderr))) as bar:
        yield Bar(bar)


class Lines:
    """What happens, a line each; how far it is, every few seconds."""

    def __init__(self) -> None:
        self._doing = ""
        self._told_s = 0.0

    def say(self, text: str) -> None:
        note(plain(text))

    def progress(self, doing: str, done: float) -> None:
        if doing != self._doing and time.monotonic() - self._told_s > LINE_S:
            self._doing, self._told_s = doing, time.monotonic()
            note(f"{doing} ...")


class Bar:
    """What happens, above a bar of the run in hand."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=1.0)
        self._doing = ""

    def say(self, text: str) -> None:
        self._bar.console.print(plain(text), highlight=False, markup=False)

    def progress(self, doing: str, done: float) -> None:
        if doing != self._doing:
            self._doing = doing
            self._bar.reset(self._task, description=doing, total=1.0)
        self._bar.update(self._task, completed=done)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Scratch: the folder that is kept, or one that is removed at the end."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="rekindle-verify-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DeclarationError(f"{keep} is there already and is not an empty folder", hint="give --keep a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.resolve()
