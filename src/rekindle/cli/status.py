"""``rekindle status``: what a home looks like now."""

from __future__ import annotations

import time

from rekindle.cli.facts import Watch
from rekindle.cli.opened import opened, supervisor_pid
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.report import out, print_json


def status(home: HomeOption = DEFAULT_HOME, keeper: KeeperOption = None, as_json: JsonOption = False) -> None:
    """Show a home's streams, nodes, sinks, replicas and failures."""
    with opened(home, keeper) as (place, records):
        facts = Watch(records, clock=time.time, monotonic=time.monotonic).look()
        supervisor = supervisor_pid(place)
    if as_json:
        about = {
            "pipeline": place.pipeline,
            "home": str(place.root),
            "keeper": place.keeper_url,
            "supervisor_pid": supervisor,
        }
        print_json({**about, **facts.to_json()})
        return
    from rekindle.cli.live import render

    who = f"supervisor: process {supervisor}" if supervisor else "no supervisor runs"
    out().print(render(facts, title=f"{place.pipeline}  ({place.root}, {who})", full=True))
