from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.live import Live

from rekindle.cli.facts import Facts
from rekindle.demo.show import Lines, Picture, Scene

FACTS = Facts(at_s=0.0, streams=(), nodes=(), sinks=(), failures=(), events=())


def test_lines_tell_every_remark_and_how_things_are_now_and_then() -> None:
    told: list[str] = []
    lines = Lines(told.append)
    lines.draw(Scene(1.0, "starting", None, 0, None))
    lines.say("a remark\x1b[2J")
    lines.draw(Scene(6.0, "flowing", FACTS, 1234, 0.5))
    lines.draw(Scene(7.0, "flowing", FACTS, 1300, 0.5))
    assert told == ["   1.0s  a remark\\x1b[2J", "   6.0s  received 1,234 rows, the last 500ms ago"]


def test_the_picture_shows_the_act_what_was_received_and_the_remarks() -> None:
    out = StringIO()
    with Live(console=Console(file=out, force_terminal=True, width=120), auto_refresh=False) as live:
        picture = Picture(live)
        picture.say("SIGKILL of node score")
        picture.draw(Scene(12.0, "node score is dead", FACTS, 99, 4.0))
    text = out.getvalue()
    assert "node score is dead" in text
    assert "received 99 rows, the last 4.0s ago" in text
    assert "SIGKILL of node score" in text
