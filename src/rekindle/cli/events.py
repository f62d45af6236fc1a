"""``rekindle events``: what happened, for people to read afterwards."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Annotated

import typer

from rekindle.cli.failovers import failovers, lines
from rekindle.cli.opened import opened
from rekindle.cli.options import DEFAULT_HOME, FollowOption, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import note, plain_line, print_json, print_line
from rekindle.errors import DeclarationError
from rekindle.keeper.records import Event
from rekindle.supervisor.chains import Failover

_PAGE = 1000
_LOOK_S = 0.5


def events(
    follow: FollowOption = False,
    fail_overs: Annotated[
        bool, typer.Option("--failovers", help="Show each death of a node as a chain: who took over, how long it took.")
    ] = False,
    after: Annotated[int, typer.Option("--after", min=0, help="Only events with a higher id.")] = 0,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only this kind; may be given again.")] = None,
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what happened, oldest first: what died, when it was noticed, who took over.

    With --json one event, or one fail-over, is one line.
    """
    if fail_overs and (follow or after or kind):
        raise DeclarationError("--failovers takes all events", hint="leave --follow, --after and --kind out")
    with opened(home, keeper) as (_, records):
        if fail_overs:
            _show_failovers(failovers(records), as_json=as_json)
            return
        seen, any_shown = after, False
        while True:
            page = records.events(after=seen, limit=_PAGE, kinds=tuple(kind or ()))
            for event in page:
                if as_json:
                    print_json(asdict(event))
                else:
                    print_line(_line(event))
                seen, any_shown = event.id, True
            sys.stdout.flush()
            if len(page) == _PAGE:
                continue
            if not follow:
                break
            time.sleep(_LOOK_S)
        if not any_shown and not as_json:
            note("no events")


def _show_failovers(found: list[Failover], *, as_json: bool) -> None:
    for number, failover in enumerate(found):
        if as_json:
            print_json(failover.to_json())
            continue
        if number:
            print_line()
        for line in lines(failover):
            print_line(line)
    if not found and not as_json:
        note("no fail-overs")


def _line(event: Event) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at_s))
    milliseconds = int(event.at_s * 1000) % 1000
    detail = "  ".join(f"{key}={plain_line(str(value))}" for key, value in event.detail.items())
    head = f"{when}.{milliseconds:03d}  {plain_line(event.kind):<19}  {plain_line(event.subject)}"
    return f"{head}  {detail}".rstrip()
