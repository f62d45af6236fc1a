from __future__ import annotations

import re
from html.parser import HTMLParser

from rekindle.verify.page import page
from tests.verify.reports import BAD, GOOD, finding, injected, report, run

VOID = {"meta", "br", "rect", "line", "path"}


class Balanced(HTMLParser):
    """Fails for a tag that is closed out of turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID and tag != "li":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and tag != "li":
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing() -> None:
    text = page(BAD)
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert re.findall(r"(?:src|href|url)\s*[=(]", text) == [] and "<script" not in text


def test_the_page_tells_the_verdict_the_faults_and_the_pauses() -> None:
    assert ">GOOD<" in page(GOOD) and ">BAD<" in page(BAD)
    text = page(BAD)
    assert text.count('<svg viewBox="0 0 1080') == 3  # undisturbed, and two runs
    assert text.count('class="fault"') == 2 and "longest pause: 6.0 s" in text
    assert "run 2: stream counts promises precise, and was gap" in text


def test_a_tick_is_where_the_time_says() -> None:
    paths = re.findall(r'<path class="tick" d="([^"]*)"', page(GOOD))
    starts = [float(x) for x in re.findall(r"M([0-9.]+) ", paths[0])]
    assert len(starts) == 3 and starts == sorted(starts)
    second, first = starts[1] - 190, starts[0] - 190
    assert abs(second / first - 2) < 0.01  # at 1 s and 2 s of 10


def test_rows_and_reasons_are_escaped() -> None:
    text = page(report(run(1, finding(2), finding(1, 2), injected(happened=False))))
    assert "&lt;b&gt;one" in text and "<b>one" not in text
    assert "no &lt;root&gt;" in text and 'class="missed"' in text
