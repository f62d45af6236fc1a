"""The database goes away, in every way that we know of: verbs wait, go on, and count nothing twice."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from rekindle.errors import BrokenInvariant, KeeperUnavailable
from rekindle.keeper import Keeper, store
from rekindle.keeper.faults import Busy
from rekindle.keeper.records import EpochNumber, Incarnation, Span
from rekindle.keeper.store import Store
from tests.keeper.place import Listening, Place, damage, output, stream
from tests.keeper.wire import Wire
from tests.postgres import PostgresServer

EPOCHS = 40
E1 = EpochNumber(1)


class Stream:
    """A thread that claims, publishes, delivers and notes one epoch after the other."""

    def __init__(self, keeper: Keeper, name: str, count: int) -> None:
        self.keeper, self.name, self.count = keeper, name, count
        self.wins = 0
        self.attempts: list[int] = []
        self.error: BaseException | None = None
        self.reached = threading.Condition()
        self.done = 0
        self.by = keeper.enlist(name, code="")
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            for number in range(1, self.count + 1):
                epoch = EpochNumber(number)
                self.keeper.claim(self.name, epoch, {"outside": Span(number - 1 or None, number)}, by=self.by)
                made = self.keeper.publish(self.name, epoch, {self.name: output(f"{self.name}{number}")}, by=self.by)
                self.wins += made.won
                self.keeper.record_delivery(f"{self.name}_sink", self.name, epoch, by=self.by)
                self.attempts.append(self.keeper.record_attempt(self.name, E1, by=self.by))
                self.keeper.event("turn", self.name, number=number)
                with self.reached:
                    self.done = number
                    self.reached.notify_all()
        except BaseException as error:
            self.error = error

    def wait_for(self, number: int) -> None:
        with self.reached:
            assert self.reached.wait_for(lambda: self.done >= number or self.error is not None, 60)

    def finish(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.wins == self.count
        assert self.attempts == list(range(1, self.count + 1))
        assert [e.epoch for e in self.keeper.epochs(self.name, after=0)] == list(range(1, self.count + 1))
        assert [c.epoch for c in self.keeper.claims(self.name)] == list(range(1, self.count + 1))
        assert self.keeper.delivered(f"{self.name}_sink") == self.count
        told = [event.detail["number"] for event in self.keeper.events(kinds=["turn"]) if event.subject == self.name]
        assert told == list(range(1, self.count + 1))


@pytest.fixture
def own(postgres_own: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres_own
    postgres_own.start()


@pytest.mark.postgres
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_postgresql_goes_away_in_the_middle_and_comes_back(own: PostgresServer, tmp_path: Path, how: str) -> None:
    place = Place(tmp_path, own.url)
    keepers = [place.open(patience_s=60), place.open(patience_s=60)]
    waiting = threading.Event()
    with Listening(waiting.set) as listening:
        streams = [Stream(keeper, name, EPOCHS) for keeper, name in zip(keepers, ("a", "b"), strict=True)]
        for each in streams:
            each.wait_for(EPOCHS // 4)
        own.stop() if how == "stop" else own.kill()
        assert waiting.wait(30)
        assert any(each.done < EPOCHS for each in streams)
        own.start()
        for each in streams:
            each.finish()
    place.close()
    assert any("answers again" in message for message in listening.heard)
    assert not any(own.password in message for message in listening.heard)


@pytest.fixture
def wire(own: PostgresServer) -> Iterator[Wire]:
    wire = Wire(own.port)
    yield wire
    wire.close()


Verb = Callable[[Keeper, Incarnation], Any]
VERBS: dict[str, Verb] = {
    "enlist": lambda keeper, me: keeper.enlist("n2", code=""),
    "present": lambda keeper, me: keeper.present(me, host="h", pid=1, pid_started=2),
    "beat": lambda keeper, me: keeper.beat(me, {}),
    "fence": lambda keeper, me: keeper.fence(me, "why"),
    "leave": lambda keeper, me: keeper.leave(me),
    "record_stream": lambda keeper, me: keeper.record_stream(stream("new")),
    "claim": lambda keeper, me: keeper.claim("f", EpochNumber(2), {"outside": Span(1, 2)}, by=me).incarnation == me,
    "publish": lambda keeper, me: keeper.publish("f", E1, {"f": output()}, by=me).won,
    "record_delivery": lambda keeper, me: keeper.record_delivery("s", "done", E1, by=me),
    "record_attempt": lambda keeper, me: keeper.record_attempt("f", E1, by=me),
    "record_failure": lambda keeper, me: keeper.record_failure("f", E1, reason="r", traceback="t", by=me),
    "event": lambda keeper, me: keeper.event("k", "s"),
}
ANSWERS = {"enlist": 3, "beat": "run", "fence": True, "claim": True, "publish": True, "record_attempt": 1}


def prepare(keeper: Keeper) -> Incarnation:
    me = keeper.enlist("n1", code="")
    for name in ("f", "done"):
        keeper.claim(name, E1, {"outside": Span(None, 1)}, by=me)
    keeper.publish("done", E1, {"done": output()}, by=me)
    return me


def check_answer(keeper: Keeper, verb: str, answer: Any, *, committed_twice: bool) -> None:
    if verb == "enlist":
        assert answer == (3 if committed_twice else 2)
        assert [m.incarnation for m in keeper.members() if m.node == "n2"] == [answer]
    elif verb in ANSWERS:
        assert answer == ANSWERS[verb]
    assert len(keeper.events()) == (1 if verb == "event" else 0)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_may_be_repeated_after_a_commit_whose_answer_was_lost(
    place: Place, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = place.open()
    me = prepare(keeper)
    kind = "_write_sqlite" if place.url is None else "_write_postgres"
    write: Callable[..., Any] = getattr(Store, kind)
    lost: list[bool] = []

    def write_and_lose(self: Store, act: Callable[[Connection], Any]) -> Any:
        answer = write(self, act)
        if not lost:
            lost.append(True)
            raise Busy
        return answer

    monkeypatch.setattr(Store, kind, write_and_lose)
    answer = VERBS[verb](keeper, me)
    assert lost
    check_answer(keeper, verb, answer, committed_twice=True)


@pytest.mark.postgres
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["enlist", "claim", "publish", "record_attempt", "event", "fence"])
def test_the_wire_breaks_at_commit(own: PostgresServer, wire: Wire, tmp_path: Path, verb: str, when: str) -> None:
    place = Place(tmp_path, own.url.replace(str(own.port), str(wire.port)))
    keeper = place.open()
    me = prepare(keeper)
    wire.cut(when)
    answer = VERBS[verb](keeper, me)
    assert wire.cuts == 1
    check_answer(keeper, verb, answer, committed_twice=when == "after")
    place.close()


@pytest.mark.postgres
def test_postgresql_dies_between_commit_and_its_answer(own: PostgresServer, wire: Wire, tmp_path: Path) -> None:
    place = Place(tmp_path, own.url.replace(str(own.port), str(wire.port)))
    keeper = place.open()
    me = prepare(keeper)
    wire.cut("after", own.restart)
    assert keeper.publish("f", E1, {"f": output()}, by=me).won
    assert wire.cuts == 1 and keeper.head("f") == 1
    place.close()


@pytest.mark.postgres
def test_patience_runs_out(own: PostgresServer, tmp_path: Path) -> None:
    place = Place(tmp_path, own.url)
    keeper = place.open(patience_s=0.3)
    own.stop()
    with Listening() as listening, pytest.raises(KeeperUnavailable, match=r"did not answer for 0\.3 s") as raised:
        keeper.head("lines")
    assert "check that PostgreSQL runs" in raised.value.hint
    for told in (str(raised.value), repr(raised.value.__cause__), str(raised.value.__cause__), *listening.heard):
        assert own.password not in told
    place.close()


def test_a_locked_file_is_waited_for(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_S_MAX", 0.02)
    keeper = sqlite_place.open()
    other = sqlite3.connect(sqlite_place.home.keeper_file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with Listening(lambda: other.execute("ROLLBACK")) as listening:
        keeper.event("k", "s")
    other.close()
    assert "locked" in listening.heard[0] and "answers again" in listening.heard[1]
    assert len(keeper.events()) == 1


def test_a_file_locked_for_too_long(sqlite_place: Place) -> None:
    keeper = sqlite_place.open(patience_s=0.1)
    other = sqlite3.connect(sqlite_place.home.keeper_file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert keeper.events() == []
    with pytest.raises(KeeperUnavailable, match="locked by another process"):
        keeper.event("k", "s")
    other.close()


def test_a_full_disk_is_waited_for(sqlite_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Store.sqlite_connection
    opened: list[sqlite3.Connection] = []

    def remember(self: Store) -> sqlite3.Connection:
        opened.append(connect(self))
        return opened[-1]

    monkeypatch.setattr(Store, "sqlite_connection", remember)
    keeper = sqlite_place.open()
    (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
    for connection in opened:
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with Listening(lambda: opened[0].execute("PRAGMA max_page_count = 1000000")) as listening:
        for number in range(1, 40):
            keeper.event("k", "s", filler="x" * 200, number=number)
    assert "the disk is full" in listening.heard[0] and len(opened) == 1
    assert [event.detail["number"] for event in keeper.events()] == list(range(1, 40))


def test_a_file_that_is_garbage(sqlite_place: Place) -> None:
    sqlite_place.home.keeper_file.write_bytes(b"not a database" * 1000)
    with pytest.raises(BrokenInvariant, match="file is damaged"):
        sqlite_place.open()


def test_unknown_errors_surface_at_once(place: Place) -> None:
    keeper = place.open()
    damage(keeper, "DROP TABLE {}failures")
    with Listening() as listening, pytest.raises(Exception, match="failures") as raised:
        keeper.failures()
    assert not isinstance(raised.value, KeeperUnavailable) and listening.heard == []
