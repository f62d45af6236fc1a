"""Every recovery policy in one pipeline, and its nodes killed and stopped in every constellation.

Fault model. Survived, one after the other in one run: one of two replicas is killed (SIGKILL); one is stopped
(SIGSTOP) until its lease has run out, and wakes when others have taken over; the node that takes its place is killed
while it starts (repair); both are killed together; one is killed while its fragments join; one is killed, and the other
one as soon as it has taken over (recovery). Lost: what the stream with gap recovery says that it dropped, and nothing
else.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from rekindle.keeper.records import Member, Span
from rekindle.sources import Rate
from rekindle.streams.segments import read_batches
from rekindle.supervisor.processes import start_ticks
from tests.faults.conftest import Trades
from tests.faults.scene import Scene
from tests.faults.soundness import flaws
from tests.sources.collect import Collected

pytestmark = [pytest.mark.processes, pytest.mark.spark, pytest.mark.timeout(600)]

ROWS_MAX = 20
SOURCES = {"bids": 2400, "asks": 2400}
SLOW_S = 150.0  # five streaming queries in each of two nodes start on two cores
COMPUTING, STANDBY = "computing", "standby"
FIT = {
    "joined": {COMPUTING: 2},
    "volumes": {COMPUTING: 1, STANDBY: 1},
    "spreads": {COMPUTING: 1},
    "quarters": {COMPUTING: 1},
    "seen": {COMPUTING: 1},
}
LAG_MAX = 5  # epochs; a report is a heartbeat old, and layers come every half second


@pytest.mark.long
def test_every_policy_survives_every_constellation_of_deaths(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(
        tmp_path, "trades", TRADES_MIXED="1", TRADES_ROWS_MAX=str(ROWS_MAX), TRADES_PACE_S="2", TRADES_LEASE_S="3"
    ) as scene:
        run = scene.start("--for", "550s")
        witness = scene.watched()

        one, other = redundant(scene, after=3)
        owner = owner_of(scene, "volumes", one, other)
        kill(scene, owner)
        scene.until(lambda: taken_over(scene, "volumes", owner), "the other one has taken over")
        heir = one if owner is other else other
        goes_on_without_joining(scene, "joined", heir)

        one, other = redundant(scene, after=1)
        hung = owner_of(scene, "joined", one, other)
        scene.hang(hung)
        scene.until(lambda: owner_now(scene, "joined") != hung.incarnation, "its lease runs out, the other one owns")
        assert scene.stopped(hung.pid)
        starting = started(scene, but=(one, other))
        kill(scene, starting)  # during repair
        scene.until(lambda: started(scene, but=(one, other, starting)), "it is replaced once more")
        wake_and_see_it_fenced(scene, hung)

        one, other = redundant(scene, after=1)
        kill(scene, one, other)  # both together
        joining = joins(scene, "quarters", but=(one, other))
        kill(scene, joining)  # while its fragments join: it replays what the state depends on
        assert not [e for e in scene.events("first_epoch") if e.detail["incarnation"] == joining.incarnation]
        one, other = redundant(scene, after=1)
        owner = owner_of(scene, "volumes", one, other)
        heir = one if owner is other else other
        kill(scene, owner)
        scene.until(lambda: taken_over(scene, "volumes", owner), "the other one has taken over")
        kill(scene, heir)  # during recovery

        ended = scene.finish(run, SOURCES)
        assert ended.code == 0, str(ended)
        deaths = scene.events("node_died")
        assert len(deaths) == 8
        assert flaws(scene, dropped=("seen",)) == []
        assert witness.changed() == []
        assert Trades.of(scene) == undisturbed
        how = {(e.subject, e.detail["how"]) for e in scene.events("fragment_joined")}
        assert {("joined", "fork"), ("volumes", "fork"), ("quarters", "replay"), ("seen", "jump")} <= how
        assert scene.final("quarters", 1) == windows(2400)
        assert_gap_is_on_record(scene)


def test_a_warm_node_of_the_pool_takes_the_place_of_one_that_dies(tmp_path: Path, undisturbed: Trades) -> None:
    with Scene(tmp_path, "trades", TRADES_POOL="1", TRADES_ROWS_MAX="20", TRADES_PACE_S="1") as scene:
        run = scene.start("--for", "550s")
        witness = scene.watched()
        scene.until(lambda: len(ready(scene)) == 2, "the node and a warm one are ready", SLOW_S)
        first, warm = sorted(ready(scene), key=lambda m: m.node)
        assert (first.node, warm.node) == ("main", "pool.1")
        kill(scene, first)
        scene.until(lambda: scene.events("node_promoted"), "the warm one is promoted")
        (promoted,) = scene.events("node_promoted")
        assert (promoted.subject, promoted.detail["incarnation"]) == ("main", warm.incarnation)
        scene.until(lambda: any(m.node == "pool.1" for m in ready(scene)), "the pool is full again", SLOW_S)
        ended = scene.finish(run, SOURCES)
        assert ended.code == 0, str(ended)
        assert any(e.incarnation == warm.incarnation for e in scene.epochs("joined"))
        assert flaws(scene) == [] and witness.changed() == []
        assert Trades.of(scene) == undisturbed


# -- whom to kill --------------------------------------------------------------------------------------


def ready(scene: Scene) -> list[Member]:
    with scene.keeper() as keeper:
        return [m for m in keeper.members() if m.pid and m.report.get("phase") == "ready"]


def redundant(scene: Scene, *, after: int) -> tuple[Member, Member]:
    """Both nodes, once each fragment has as many replicas as its policy wants, all of them able to go on at once, and
    some more epochs have come."""
    found: list[Member] = []

    def there() -> bool:
        members = found[:] = ready(scene)
        replicas = [(s, r) for m in members for s, r in m.report["replicas"].items() if s in FIT]
        fit = Counter((s, r["role"]) for s, r in replicas if r["epoch"] >= max(1, scene.head(s) - LAG_MAX))
        return len(members) == 2 and all(fit[s, role] == n for s, roles in FIT.items() for role, n in roles.items())

    scene.until(there, "the redundancy that the policies want", SLOW_S)
    head = scene.head("joined")
    scene.until(lambda: scene.head("joined") >= head + after, "more epochs")
    one, other = found
    return one, other


def owner_of(scene: Scene, subject: str, *members: Member) -> Member:
    return next(m for m in members if m.incarnation == owner_now(scene, subject))


def owner_now(scene: Scene, subject: str) -> int:
    with scene.keeper() as keeper:
        return keeper.owners()[subject].incarnation


def taken_over(scene: Scene, subject: str, before: Member) -> bool:
    events = scene.events("taken_over")
    return any(e.subject == subject and e.detail["before"] == before.incarnation for e in events)


def goes_on_without_joining(scene: Scene, fragment: str, heir: Member) -> None:
    """The other replica of an active standby computed all the time: it just publishes the next epochs."""
    joined = [e for e in scene.events("fragment_joined") if e.subject == fragment]
    head = scene.head(fragment)
    scene.until(lambda: scene.head(fragment) >= head + 2, "it goes on")
    assert {e.incarnation for e in scene.epochs(fragment)[head:]} == {heir.incarnation}
    assert [e for e in scene.events("fragment_joined") if e.subject == fragment] == joined


def joins(scene: Scene, fragment: str, *, but: tuple[Member, ...]) -> Member:
    """A node that is none of these, as soon as its replica of the fragment has begun to join."""
    known = {m.incarnation for m in but}
    found: list[Member] = []

    def there() -> bool:
        by = {e.detail["incarnation"] for e in scene.events("fragment_joined") if e.subject == fragment} - known
        with scene.keeper() as keeper:
            found[:] = [m for m in keeper.members() if m.incarnation in by]
        return bool(found)

    scene.until(there, f"{fragment} joins", SLOW_S)
    return found[0]


def started(scene: Scene, *, but: tuple[Member, ...]) -> Member:
    """A node that is none of these, as soon as it has a process."""
    found: list[Member] = []
    known = {m.incarnation for m in but}

    def there() -> bool:
        with scene.keeper() as keeper:
            found[:] = [m for m in keeper.members() if m.pid and m.incarnation not in known]
        return bool(found)

    scene.until(there, "another node has started", SLOW_S)
    return found[0]


def kill(scene: Scene, *members: Member) -> None:
    """SIGKILL nodes with all their processes, at the same moment."""
    pids = [pid for member in members for pid in (member.pid, *scene.processes_of(member))]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    killed = {m.incarnation for m in members}
    with scene.keeper() as keeper:
        scene.until(lambda: not killed & {m.incarnation for m in keeper.members()}, "the dead are fenced")


def wake_and_see_it_fenced(scene: Scene, zombie: Member) -> None:
    scene.signal(zombie, signal.SIGCONT)
    scene.until(lambda: start_ticks(zombie.pid) is None, "the zombie ends by itself")
    (log,) = scene.home.logs.glob(f"*-{zombie.incarnation}.log")
    assert f"incarnation {zombie.incarnation} of node" in log.read_text() and "was fenced" in log.read_text()
    assert not [e for e in scene.events("node_killed") if e.detail["incarnation"] == zombie.incarnation]


# -- what should have come out -------------------------------------------------------------------------


def rows_of(seed: int, limit: int) -> list[dict[str, object]]:
    """What a source brings, read without a node."""
    reader = Rate(100, keys=20, seed=seed, start=1_700_000_000.0, limit=limit).open(())
    batch = Collected()
    reader.read(Span(None, reader.newest(None, limit)), batch)
    return batch.rows()


def windows(limit: int) -> dict[tuple[object, ...], tuple[object, ...]]:
    """The sliding windows of the asks, counted without Spark."""
    found: dict[tuple[object, ...], tuple[int, float]] = {}
    for row in rows_of(2, limit):
        second = row["ts"].replace(microsecond=0)  # type: ignore[attr-defined]
        for start in (second, second.__class__.fromtimestamp(second.timestamp() - 1, second.tzinfo)):
            n, total = found.get((start,), (0, 0))
            found[(start,)] = (n + 1, total + row["value"])  # type: ignore[operator]
    return dict(found)


def assert_gap_is_on_record(scene: Scene) -> None:
    """Counting the rows that were not dropped, starting anew after each gap, gives exactly what was published."""
    gaps = scene.events("gap")
    epochs = scene.epochs("seen")
    assert gaps and sum(e.detail["rows"] for e in gaps) == sum(e.output.dropped or 0 for e in epochs)
    with scene.keeper() as keeper:
        claims = {claim.epoch: claim.spans["bids"] for claim in keeper.claims("seen")}
        bids = {e.epoch: e for e in keeper.epochs("bids", after=0)}
    assert {e.detail["epoch"] for e in gaps} == {e.epoch for e in epochs if e.output.dropped is not None}
    counts: Counter[object] = Counter()
    for epoch in epochs:
        taken = [bids[e] for e in range(claims[epoch.epoch].after + 1, claims[epoch.epoch].through + 1)]  # type: ignore[index]
        keys = [row["key"] for batch in read_batches(scene.home, taken) for row in batch.to_pylist()]
        if epoch.output.dropped is not None:
            assert epoch.output.dropped == len(keys) and epoch.output.rows == 0
            counts.clear()
            continue
        counts.update(keys)
        out = {row["key"]: row["n"] for batch in read_batches(scene.home, [epoch]) for row in batch.to_pylist()}
        assert out == {key: counts[key] for key in set(keys)}
