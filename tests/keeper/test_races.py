"""Several threads and several processes want the same: one wins, all adopt it; and the fence holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import Fenced
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Published, Span
from tests.keeper.place import Place, output

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = 30


class Racer:
    def __init__(self, place: Place, node: str, epochs: int) -> None:
        home = place.home
        arguments = [str(home.root), home.pipeline, home.id, place.url or "-", node, str(epochs)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.keeper.racer", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.incarnation = Incarnation(0)

    def ready(self) -> None:
        self.incarnation = Incarnation(self._line()["ready"])

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        result = self._line()
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return result

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "a racer died"
        answer: dict[str, Any] = json.loads(line)
        return answer


def test_processes_race_on_the_same_epochs(place: Place) -> None:
    keeper = place.open()
    racers = [Racer(place, f"n{number}", EPOCHS) for number in range(3)]
    for racer in racers:
        racer.ready()
    for racer in racers:
        racer.go()
    results = [racer.result() for racer in racers]
    first = results[0]
    for result in results:
        assert result["claims"] == first["claims"] and result["published"] == first["published"]
        assert not result["fenced"] and len(result["claims"]) == EPOCHS
    assert sorted(epoch for result in results for epoch in result["won"]) == list(range(1, EPOCHS + 1))
    assert [c.spans["outside"].through for c in keeper.claims("f")] == first["claims"]
    assert [e.output.segments[0].path for e in keeper.epochs("f", after=0)] == first["published"]


def test_threads_race_on_the_same_epochs(place: Place) -> None:
    keepers = [place.open(), place.open()]
    lives = [(keepers[number % 2], keepers[0].enlist(f"n{number}", code="")) for number in range(4)]
    seen: dict[Incarnation, list[Published]] = {by: [] for _, by in lives}
    start = threading.Barrier(len(lives))

    def race(keeper: Keeper, by: Incarnation) -> None:
        position = None
        for number in range(1, EPOCHS + 1):
            epoch = EpochNumber(number)
            if number % 5 == 1:
                start.wait(60)  # on the mark again, so that they really meet
            claim = keeper.claim("f", epoch, {"outside": Span(position, f"{by}-{number}")}, by=by)
            position = claim.spans["outside"].through
            outputs = {"f": output(f"{by}-{number}"), "f_rejected": output(f"r-{by}-{number}")}
            seen[by].append(keeper.publish("f", epoch, outputs, by=by))

    threads = [threading.Thread(target=race, args=life) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(EPOCHS):
        answers = [published[number] for published in seen.values()]
        assert sum(answer.won for answer in answers) == 1
        assert all(answer.epochs == answers[0].epochs for answer in answers)
        assert len({epoch.incarnation for epoch in answers[0].epochs.values()}) == 1


@pytest.mark.parametrize("attempt", range(3))
def test_after_fence_has_returned_nothing_is_published(place: Place, attempt: int) -> None:
    keeper = place.open()
    racer = Racer(place, "victim", 0)
    racer.ready()
    racer.go()
    while keeper.head("f") < 5 + attempt:
        keeper.wait(0, 0.001)
    assert keeper.fence(racer.incarnation, "race")
    head = keeper.head("f")
    last = keeper.last_claim("f")
    result = racer.result()
    assert result["fenced"]
    assert keeper.head("f") == head and keeper.last_claim("f") == last
    with pytest.raises(Fenced):
        keeper.publish("f", EpochNumber(head), {"f": output()}, by=racer.incarnation)
    successor = keeper.enlist("victim", code="")
    published = keeper.publish("f", EpochNumber(head), {"f": output("late")}, by=successor)
    assert not published.won and published.epochs["f"].incarnation == racer.incarnation


def test_fences_race_with_the_threads_of_their_victims(place: Place) -> None:
    keeper, theirs = place.open(), place.open()
    for turn in range(10):
        by = theirs.enlist(f"n{turn}", code="")
        began = threading.Event()

        def work(by: Incarnation = by, fragment: str = f"f{turn}", began: threading.Event = began) -> None:
            number = 0
            while True:
                number += 1
                try:
                    theirs.claim(fragment, EpochNumber(number), {"outside": Span(number - 1 or None, number)}, by=by)
                    theirs.publish(fragment, EpochNumber(number), {fragment: output()}, by=by)
                except Fenced:
                    return
                began.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert began.wait(60)
        assert keeper.fence(by, "race")
        head, last = keeper.head(f"f{turn}"), keeper.last_claim(f"f{turn}")
        thread.join(60)
        assert not thread.is_alive()
        assert (keeper.head(f"f{turn}"), keeper.last_claim(f"f{turn}")) == (head, last)
        assert last is not None and last.epoch - head in (0, 1)
