"""``rekindle soak``: a pipeline with every policy under random faults, every row of it checked."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.interrupt import INTERRUPTED, interruptible
from rekindle.cli.options import JsonOption
from rekindle.cli.report import note, plain, say, say_json
from rekindle.cli.verify import view_for
from rekindle.errors import DeclarationError
from rekindle.java import check_java

FAULTS_A_MINUTE = 5


def soak(
    minutes: Annotated[float, typer.Option("--minutes", min=0.5, help="How long input is generated.")] = 5.0,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same faults in the same order.")] = 0,
    faults: Annotated[
        int | None, typer.Option("--faults", min=1, help=f"How many; {FAULTS_A_MINUTE} a minute if not given.")
    ] = None,
    rows_per_s: Annotated[int, typer.Option("--rows-per-s", min=10, help="How much input.")] = 2000,
    sqlite: Annotated[
        bool, typer.Option("--sqlite", help="Keep the records in SQLite, without the faults of a server.")
    ] = False,
    cores: Annotated[int | None, typer.Option("--cores", min=1, help="Cores of each node.")] = None,
    keep: Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Keep everything in a new DIR.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline with every policy under random faults, and check every row.

    What comes out is computed again without Spark. Exit code 1 if a row was lost, duplicated or changed, if memory or
    disk grew, or if anything else was wrong.
    """
    from rekindle.verify.soak import Plan, Soak

    check_java()
    folder = _folder(keep)
    try:
        wanted = int(minutes * FAULTS_A_MINUTE) if faults is None else faults
        with interruptible(), view_for(as_json=as_json) as view:
            plan = Plan(folder, minutes, seed, wanted, rows_per_s, not sqlite, cores)
            report = Soak(plan, view).run()
    except KeyboardInterrupt:
        note("interrupted; everything that was started has ended")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        say_json(report.to_json())
    else:
        told = report.to_json()
        say(f"{report.survived} faults survived in {report.seconds / 60:.1f} minutes, seed {seed}:")
        for kind, count in told["faults_by_kind"].items():
            say(f"  {kind:<18} {count:>5}")
        missed = told["faults_not_injected"]
        for fault in missed:
            say(plain(f"  not injected: {fault['kind']}: {fault['proof']}"))
        for what in ("checked", "lost", "duplicated", "changed"):
            say(f"rows {what:<12} {report.total(what):>14,}")
        say(f"rows dropped, on record {report.dropped:>7,} (rk.Gap())")
        if report.samples:
            memory = max(sample.memory_bytes for sample in report.samples) / 2**20
            disk = max(sample.disk_bytes for sample in report.samples) / 2**20
            flat = {True: "flat", False: "NOT FLAT", None: "watched too shortly to say whether it is flat"}
            say(f"memory {flat[report.memory_is_flat]}; at most {memory:,.0f} MiB of all processes")
            say(f"disk   {flat[report.disk_is_flat]}; at most {disk:,.0f} MiB in the home")
        for name, tally in report.tallies.items():
            for example in tally["examples"]:
                say(plain(f"{name}: {example}"))
        for what in report.wrong:
            say(plain(f"wrong: {what}"))
        say("verdict: GOOD" if report.is_good else f"verdict: BAD; the same faults again: --seed {seed}")
    if keep is not None:
        note(f"kept: {keep}")
    raise typer.Exit(0 if report.is_good else 1)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="rekindle-soak-"))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DeclarationError(f"{keep} is there already and is not an empty folder", hint="give --keep a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()
