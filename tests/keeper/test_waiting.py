"""Waiting for changes: woken by claims, publishes and deliveries of any process, not by beats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from tests.keeper.place import Place, output
from tests.postgres import PostgresServer

LONG_S = 30.0
E1 = EpochNumber(1)


def settled(keeper: Keeper) -> int:
    """A token after which nothing has happened."""
    token = keeper.wait(0, 0.0)
    while (after := keeper.wait(token, 0.3)) != token:
        token = after
    return token


class Waiter:
    """A thread inside wait; ``token`` is what it returned."""

    def __init__(self, keeper: Keeper, seen: int) -> None:
        self.token: int | None = None
        self._thread = threading.Thread(target=self._wait, args=(keeper, seen))
        self._thread.start()

    def _wait(self, keeper: Keeper, seen: int) -> None:
        self.token = keeper.wait(seen, LONG_S)

    def result(self, timeout_s: float = LONG_S / 2) -> int | None:
        self._thread.join(timeout_s)
        return self.token


CHANGES: dict[str, Callable[[Keeper, Incarnation], object]] = {
    "claim": lambda keeper, me: keeper.claim("f", EpochNumber(2), {"outside": Span(1, 2)}, by=me),
    "publish": lambda keeper, me: keeper.publish("f", E1, {"f": output()}, by=me),
    "delivery": lambda keeper, me: keeper.record_delivery("s", "g", E1, by=me),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("who", ["the same keeper", "another keeper"])
def test_a_change_wakes_who_waits(place: Place, what: str, who: str) -> None:
    keeper = place.open()
    writer = keeper if who == "the same keeper" else place.open()
    me = writer.enlist("n", code="")
    for name in ("f", "g"):
        writer.claim(name, E1, {"outside": Span(None, 1)}, by=me)
    writer.publish("g", E1, {"g": output()}, by=me)
    seen = settled(keeper)
    waiters = [Waiter(keeper, seen) for _ in range(3)]
    CHANGES[what](writer, me)
    for waiter in waiters:
        token = waiter.result()
        assert token is not None and token > seen


def test_a_change_before_the_wait_is_not_missed(place: Place) -> None:
    keeper, writer = place.open(), place.open()
    me = writer.enlist("n", code="")
    seen = settled(keeper)
    writer.claim("f", E1, {"outside": Span(None, 1)}, by=me)
    assert keeper.wait(seen, LONG_S) > seen


def test_beats_and_events_wake_nobody(place: Place) -> None:
    keeper, writer = place.open(), place.open()
    me = writer.enlist("n", code="")
    seen = settled(keeper)
    waiter = Waiter(keeper, seen)
    for _ in range(20):
        writer.beat(me, {})
        keeper.beat(me, {})
    writer.event("k", "s")
    assert keeper.wait(seen, 0.3) == seen
    assert waiter.token is None
    writer.claim("f", E1, {"outside": Span(None, 1)}, by=me)
    assert waiter.result() is not None


def test_an_adopted_claim_wakes_nobody(place: Place) -> None:
    keeper = place.open()
    me = keeper.enlist("n", code="")
    keeper.claim("f", E1, {"outside": Span(None, 1)}, by=me)
    seen = settled(keeper)
    keeper.claim("f", E1, {"outside": Span(None, 1)}, by=me)
    assert keeper.wait(seen, 0.3) == seen


def test_closing_ends_the_waiting(place: Place) -> None:
    keeper = place.open()
    waiter = Waiter(keeper, settled(keeper))
    keeper.close()
    assert waiter.result() is not None


@pytest.mark.postgres
def test_waiting_goes_on_over_an_outage(postgres_own: PostgresServer, tmp_path: Path) -> None:
    place = Place(tmp_path, postgres_own.url)
    keeper, writer = place.open(), place.open()
    me = writer.enlist("n", code="")
    seen = settled(keeper)
    postgres_own.stop()
    began = time.monotonic()
    polled = 0
    while polled < 3:  # while it is down, wait comes back early, so that its caller looks for himself
        seen = keeper.wait(seen, LONG_S)
        polled += 1
    assert time.monotonic() - began < LONG_S
    postgres_own.start()
    seen = settled(keeper)
    writer.claim("f", E1, {"outside": Span(None, 1)}, by=me)
    assert keeper.wait(seen, LONG_S) > seen
    place.close()
