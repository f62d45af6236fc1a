"""``rekindle demo``: a node is killed while you watch, and the output is checked."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.durations import parse_duration
from rekindle.cli.interrupt import INTERRUPTED, interruptible
from rekindle.cli.options import JsonOption
from rekindle.cli.report import note, plain, say, say_json
from rekindle.demo.course import Course, Plan
from rekindle.demo.outcome import Outcome
from rekindle.demo.scale import PIPELINE_FILE, Scale
from rekindle.demo.show import view_for
from rekindle.errors import DeclarationError
from rekindle.java import check_java
from rekindle.verify.trace import Verdict

KILL_AFTER_S = 20.0


class Victim(StrEnum):
    score = "score"
    main = "main"


class Sabotage(StrEnum):
    lose = "lose"
    duplicate = "duplicate"
    change = "change"


def demo(
    kill: Annotated[
        Victim, typer.Option("--kill", help="The node to kill: score (the windows) or main (generators, join, sink).")
    ] = Victim.score,
    seconds: Annotated[int, typer.Option("--seconds", min=5, max=3600, help="How long input is generated.")] = 60,
    kill_after: Annotated[
        str,
        typer.Option(
            "--kill-after",
            metavar="TIME",
            help="How long output flows before the kill; at half of the input it comes in any case.",
        ),
    ] = f"{KILL_AFTER_S:g}s",
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the home, the output and the log in a new DIR.")
    ] = None,
    sabotage: Annotated[
        Sabotage | None,
        typer.Option(
            "--sabotage",
            help="Damage one row of what was received before the verdict, to see that it can turn out bad.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the demonstration: a node is killed while you watch, then the output is checked.

    A pipeline of two generators, a join of their streams and a windowed aggregate runs on two nodes. One of them is
    SIGKILLed, its Python and its JVM. At the end every row that was delivered is compared with what must have come
    out, computed without Spark. Exit code 0 for a good verdict, 1 for a bad one; --sabotage brings about a bad one.
    """
    kill_after_s = parse_duration(kill_after, what="--kill-after")
    check_java()
    with _folder(keep) as folder:
        plan = Plan(folder, Scale(seconds=seconds), kill.value, kill_after_s, sabotage.value if sabotage else None)
        if not as_json:
            for line in introduction(plan, kept=keep is not None):
                say(line)
        with interruptible():
            try:
                outcome = _play(plan, as_json=as_json)
            except KeyboardInterrupt:
                note("interrupted; everything that was started has ended")
                raise typer.Exit(INTERRUPTED) from None
        if as_json:
            say_json(outcome.to_json())
        else:
            for line in report(outcome):
                say(plain(line))
            if keep is not None:
                say(f"kept: {plan.folder}  (rekindle events --home {plan.home})")
    raise typer.Exit(0 if outcome.is_good else 1)


def introduction(plan: Plan, *, kept: bool) -> list[str]:
    """What is going to happen."""
    scale = plan.scale
    return [
        f"The pipeline {PIPELINE_FILE}:",
        f"  node main    {scale.payments_per_s:,} payments/s and {scale.logins_per_s:,} logins/s for "
        f"{scale.seconds} s, their join, the sink",
        "  node score   a windowed aggregate of what was joined",
        f"After {plan.kill_after_s:g} s of output, or half of the input, node {plan.victim} is killed: SIGKILL to its",
        "Python and its JVM.",
        "Nobody stands by, so it is started anew. When all input is used up, each row received is checked.",
        f"This takes about {scale.seconds + 35} s. Ctrl-C ends it, and "
        + (f"leaves what there is in {plan.folder}." if kept else "nothing is left behind."),
        "",
    ]


def report(outcome: Outcome) -> list[str]:
    """The verdict, for people."""
    verdict = outcome.verdict
    lines = ["", *_what_happened(outcome), ""]
    if outcome.sabotage is not None:
        lines += [f"sabotage, as asked for: {outcome.sabotage}", ""]
    lines += [
        f"delivered    {verdict.delivered:>9,} rows, expected {verdict.expected:,}",
        f"lost         {verdict.lost.rows:>9,}",
        f"duplicated   {verdict.duplicated.rows:>9,}",
        f"changed      {verdict.changed.rows:>9,}",
    ]
    if verdict.unexpected.rows:
        lines.append(f"unexpected   {verdict.unexpected.rows:>9,}")
    if verdict.withdrawn.rows:
        lines.append(f"withdrawn    {verdict.withdrawn.rows:>9,}  rows that were gone again after they were received")
    lines += _pauses(outcome)
    lines += _examples(verdict)
    lines += [f"a delivered file: {what}" for what in outcome.disturbances]
    lines += [f"fault: {fault}" for fault in outcome.faults]
    lines += ["", "verdict: GOOD, nothing was lost, duplicated or changed" if outcome.is_good else "verdict: BAD"]
    return lines


def _what_happened(outcome: Outcome) -> list[str]:
    if not outcome.moments:
        return ["no node was killed"]
    died_s = outcome.moments[0].at_s
    lines = [
        f"{time.strftime('%H:%M:%S', time.localtime(m.at_s))}  {m.at_s - died_s:+6.1f} s  {m.step:<13} {m.detail}"
        for m in outcome.moments
    ]
    others = ", ".join(f"{rows:,} rows of {stream}" for stream, rows in outcome.meanwhile.items() if rows)
    return [*lines, f"Until the first epoch the others went on: {others}." if others else "Meanwhile nothing else ran."]


def _pauses(outcome: Outcome) -> list[str]:
    if outcome.pause is None:
        return ["longest pause        none: no output while input was running"]
    before = "" if outcome.pause_before is None else f" (before the kill {outcome.pause_before.length_s:.1f} s)"
    died_s = outcome.moments[0].at_s if outcome.moments else None
    lines = [f"longest pause {outcome.pause.length_s:>8.1f} s in output while input was running{before}"]
    if died_s is not None and outcome.pause.since_s <= died_s <= outcome.pause.until_s:
        lines.append(
            "             It is the restart: nobody stands by, so a new Python, JVM and Spark session must start."
        )
    return lines


def _examples(verdict: Verdict) -> list[str]:
    lines = []
    for kind, damage in verdict.damages.items():
        for example in damage.examples:
            lines.append(f"{kind}: {example.key}")
            lines.append(f"    expected {example.expected or 'nothing'}")
            lines += [f"    received {content}" for content in example.seen] or ["    received nothing"]
    return lines


def _play(plan: Plan, *, as_json: bool) -> Outcome:
    with view_for(as_json=as_json) as view:
        course = Course(plan, view)
        try:
            return course.play()
        finally:
            course.end()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Where everything goes: the folder that is kept, or one that is removed at the end."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="rekindle-demo-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DeclarationError(f"{keep} is there already and is not an empty folder", hint="give --keep a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep.resolve()
