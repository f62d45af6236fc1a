"""How facts look in a terminal: ``run`` draws this again and again, ``status`` once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rekindle.cli.durations import show_duration
from rekindle.cli.facts import Facts, NodeFacts, StreamFacts
from rekindle.cli.redundancy import Redundancy
from rekindle.cli.report import plain_line
from rekindle.keeper.records import Event

_STATE_STYLES = {"running": "green", "starting": "yellow", "left": "dim", "fenced": "red", "gone": "red"}


def render(facts: Facts, *, title: str = "", full: bool = False) -> RenderableType:
    """The facts as tables, the parts that have nothing to show left out; ``full`` says which replica does what.
    Pure: no query, no clock."""
    parts: list[RenderableType] = []
    if title:
        parts.append(Text(plain_line(title), style="bold"))
    parts.append(_streams(facts) if facts.streams else Text("no streams yet", style="dim"))
    parts.append(_nodes(facts) if facts.nodes else Text("no nodes yet", style="dim"))
    if facts.sinks:
        parts.append(_sinks(facts))
    if full and facts.redundancy:
        parts.append(_replicas(facts))
    for failure in facts.failures:
        parts.append(
            Text.assemble(
                ("failed  ", "bold red"),
                (f"{failure.subject} at epoch {failure.epoch}: ", "red"),
                plain_line(failure.reason),
            )
        )
    if facts.events:
        parts.append(_events(facts.events))
    return Group(*parts)


def event_line(event: Event) -> Text:
    """One event on one line: when, what, to whom, and the rest."""
    detail = "  ".join(f"{key}={plain_line(str(value))}" for key, value in event.detail.items())
    return Text.assemble(
        (time.strftime("%H:%M:%S", time.localtime(event.at_s)), "dim"),
        "  ",
        (f"{plain_line(event.kind):<19}", "bold"),
        f" {plain_line(event.subject):<16}",
        (f" {detail}" if detail else "", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    right = set(numbers)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=True)
    return table


def _streams(facts: Facts) -> Table:
    redundancy = {r.subject: r for r in facts.redundancy}
    columns = [
        "stream",
        "epoch",
        "rows",
        "rows/s",
        "published",
        *(["replicas"] if redundancy else []),
        "readers behind",
    ]
    table = _table(*columns, numbers=("epoch", "rows", "rows/s"))
    for stream in facts.streams:
        age = (
            ""
            if stream.published_at_s is None
            else f"{show_duration(max(0.0, facts.at_s - stream.published_at_s))} ago"
        )
        table.add_row(
            Text(plain_line(stream.stream), style="cyan"),
            f"{stream.epoch:,}",
            _rows(stream),
            f"{stream.rows_per_s:,.0f}",
            age,
            *([_redundancy(redundancy.get(stream.fragment))] if redundancy else []),
            _lags(stream),
        )
    return table


def _rows(stream: StreamFacts) -> Text:
    text = Text(f"{stream.rows:,}")
    if stream.rows_after_epoch:
        text.append(f" since {stream.rows_after_epoch:,}")
    if stream.dropped_epochs:
        text.append(f" ({stream.dropped_rows:,} dropped)", style="yellow")
    return text


def _redundancy(redundancy: Redundancy | None) -> Text:
    if redundancy is None:
        return Text()
    style = "" if redundancy.whole else "yellow" if redundancy.now else "red"
    return Text(plain_line(redundancy.text), style=style)


def _replicas(facts: Facts) -> Table:
    """Who owns what, and what each node does for it."""
    table = _table("replicas of", "kind", "now", "owner", "on each node")
    for each in facts.redundancy:
        owner = each.owner or ("" if each.owner_incarnation is None else f"incarnation {each.owner_incarnation}")
        doing = "  ".join(f"{node} {replica.role} {replica.epoch:,}" for node, replica in sorted(each.replicas.items()))
        table.add_row(
            Text(plain_line(each.subject), style="cyan"),
            each.kind,
            _redundancy(each),
            plain_line(owner) + (" (gone)" if owner and not each.owner_live else ""),
            plain_line(doing),
        )
    return table


def _roles(node: NodeFacts) -> str:
    """Such as '3 computing, 1 standby'."""
    roles = Counter(replica.role for replica in node.replicas.values() if node.live)
    return ", ".join(f"{count} {plain_line(role)}" for role, count in sorted(roles.items()))


def _lags(stream: StreamFacts) -> Text:
    text = Text()
    for reader, lag in stream.lags.items():
        text.append("  " if text else "")
        text.append(f"{plain_line(reader)} {lag:,}", style="yellow" if lag > 10 else "")
    return text


def _nodes(facts: Facts) -> Table:
    columns = ["node", "state", "incarnation", "pid", "host", "last beat"]
    replicas = any(node.live and node.replicas for node in facts.nodes)
    table = _table(*columns, *(["replicas"] if replicas else []), numbers=("incarnation", "pid"))
    for node in facts.nodes:
        if not node.live:
            beat = ""
        elif node.beat_age_s is None:
            beat = f"{node.beats:,} beats"
        else:
            beat = f"{show_duration(node.beat_age_s)} ago"
        state = node.state
        if state == "running":
            state = "draining" if node.want == "drain" else "running" if node.phase in ("", "ready") else node.phase
        table.add_row(
            Text(plain_line(node.node), style="cyan"),
            Text(plain_line(state), style=_STATE_STYLES.get(state, "yellow")),
            str(node.incarnation),
            str(node.pid or ""),
            plain_line(node.host),
            beat,
            *([_roles(node)] if replicas else []),
        )
    return table


def _sinks(facts: Facts) -> Table:
    redundancy = {r.subject: r for r in facts.redundancy}
    columns = ["sink", "of stream", "delivered", "behind", *(["replicas"] if redundancy else [])]
    table = _table(*columns, numbers=("delivered", "behind"))
    for sink in facts.sinks:
        table.add_row(
            Text(plain_line(sink.sink), style="cyan"),
            plain_line(sink.stream),
            f"{sink.epoch:,}",
            f"{sink.lag:,}",
            *([_redundancy(redundancy.get(sink.sink))] if redundancy else []),
        )
    return table


def _events(events: Iterable[Event]) -> Group:
    return Group(Text("latest events", style="dim"), *(event_line(event) for event in events))
