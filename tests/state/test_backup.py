"""Backup: enough copies before a safe point, stores that go and come back, crashes at every step, retention.

Fault model. Survived: any store away, full, emptied or hanging while enough others are there; a crash at any step;
another replica that ships the same fragment. Every safe point on record can be restored, whatever happened.
"""

from __future__ import annotations

import shutil
import tarfile
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from rekindle.errors import DeclarationError, Fenced, StateDamaged
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation
from rekindle.state.backup import Backup
from rekindle.state.checkpoint import standing
from rekindle.state.couriers import Retry, TooFewStores
from rekindle.state.layers import needed
from rekindle.state.restore import find, read_manifest, restore
from rekindle.state.stores import Store, StoreFailed
from tests.state.paper import PaperQuery, contents

RETRY = Retry(attempts=2, pause_s=0.0, away_s=0.0, away_s_max=0.0, patience_s=60.0)
STEPS = ["captured", "objects_stored", "manifest_stored", "recorded", "retired"]


class Crash(BaseException):
    """The process ends here."""


class World:
    """One fragment's query and its backup, on stores that can be taken away."""

    def __init__(self, tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]) -> None:
        self.tmp, self.keeper, self.me, self.stores = tmp_path, keeper, me, stores
        self.query = PaperQuery(tmp_path / "c", partitions=3)
        self.truths: dict[int, dict[str, bytes]] = {}
        self.restored = 0

    def backup(
        self, copies: int = 2, *, by: Incarnation | None = None, query: PaperQuery | None = None, **more: object
    ) -> Backup:
        options: dict[str, object] = {"scratch": self.tmp / "scratch", "retry": RETRY, **more}
        checkpoint = (query or self.query).root
        return Backup("sums", checkpoint, self.stores, copies, self.keeper, by or self.me, **options)  # type: ignore[arg-type]

    def run(self, batches: int = 1) -> None:
        """Run batches one by one, and note what the checkpoint needs after each."""
        for _ in range(batches):
            self.query.run(1)
            self.note(self.query)

    def note(self, query: PaperQuery) -> None:
        paths = needed(query.root, standing(query.root))
        self.truths[query.epoch] = {path: (query.root / path).read_bytes() for path in paths}

    def check(self, *, without: Iterable[int] = ()) -> list[int]:
        """Every safe point on record can be restored, from the stores that are left; returns their epochs."""
        left = [store for number, store in enumerate(self.stores) if number not in set(without)]
        epochs = []
        for point in self.keeper.safe_points("sums"):
            self.restored += 1
            target = self.tmp / f"restored{self.restored}"
            stand = restore("sums", point.epoch, left, self.keeper, target)
            assert stand.epoch == point.epoch
            assert contents(target) == self.truths[point.epoch]
            epochs.append(int(point.epoch))
        return epochs

    def objects(self) -> set[str]:
        return {name for store in self.stores for name in store.sizes("sums")}

    def referred(self) -> set[str]:
        names: set[str] = set()
        for point in self.keeper.safe_points("sums"):
            manifest = read_manifest(point, self.stores, self.keeper)
            assert manifest is not None
            names |= {point.manifest, *manifest.objects}
        return names

    def events(self, kind: str) -> list[str]:
        return [str(event.detail.get("store")) for event in self.keeper.events(kinds=[kind])]


@pytest.fixture
def world(tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]) -> World:
    return World(tmp_path, keeper, me, stores)


def test_any_store_may_be_lost_if_there_are_two_copies(world: World) -> None:
    backup = world.backup()
    for _ in range(3):
        world.run(3)
        assert backup.ship() is not None
    assert backup.ship() is None, "there is no news"
    for lost in range(3):
        assert world.check(without=[lost]) == [6, 9]


def test_parts_are_spread_over_the_stores_and_are_plain_tars(world: World) -> None:
    world.run(2)
    point = world.backup(copies=1).ship()
    assert point is not None and point.epoch == 2 and point.bytes == sum(map(len, world.truths[2].values()))
    held = [{name.rpartition("/")[2] for name in store.sizes("sums") if "tar" in name} for store in world.stores]
    assert held == [{"logs.tar", "state-0-2.tar"}, {"state-0-0.tar"}, {"state-0-1.tar"}]
    found: dict[str, bytes] = {}
    for store in world.stores:
        for name in store.sizes("sums"):
            if name.endswith(".tar"):
                with tarfile.open(world.tmp / store.name / "p-1" / name) as tar:
                    found |= {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    assert found == world.truths[2]


def test_a_layer_holds_what_is_new_and_skips_what_lies_between(world: World) -> None:
    backup = world.backup()
    world.run(2)
    backup.ship()
    world.run(5)
    before = world.objects()
    point = backup.ship()
    assert point is not None and (point.epoch, point.built_on, point.batch) == (7, 2, 6)
    manifest = read_manifest(point, world.stores, world.keeper)
    assert manifest is not None
    shipped = {e.path for e, place in manifest.files.items() if place.object not in before}
    assert "state/0/0/3.changelog" not in {e.path for e in manifest.files}, "the snapshot of version 4 has merged it"
    assert {"state/0/0/4.zip", "state/0/0/5.changelog", "state/0/0/7.changelog"} <= shipped
    assert not {"metadata", "state/0/0/_metadata/schema"} & shipped
    assert world.check() == [2, 7]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_only_what_can_be_restored(world: World, step: str) -> None:
    crashed: list[str] = []

    def at(here: str) -> None:
        if here == step and world.query.epoch == 6:
            crashed.append(here)
            raise Crash

    backup = world.backup(at=at)
    for _ in range(2):
        world.run(2)
        assert backup.ship() is not None
    world.run(2)
    with pytest.raises(Crash):
        backup.ship()
    assert crashed == [step]
    recorded = STEPS.index(step) >= STEPS.index("recorded")
    assert world.check() == {"recorded": [2, 4, 6], "retired": [4, 6]}.get(step, [2, 4])
    successor = world.backup(by=world.keeper.enlist("n1", code="c1"))
    world.run(1)
    assert successor.ship() is not None
    assert world.check() == [6 if recorded else 4, 7]
    assert world.objects() == world.referred()


@pytest.mark.parametrize("broken", range(1, 12))
def test_a_process_that_dies_in_the_middle_of_any_write_leaves_only_what_can_be_restored(
    world: World, broken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(2)
    world.backup().ship()
    genuine, turn, count = Store.put, threading.Lock(), [0]

    def put(store: Store, name: str, chunks: Iterable[bytes], size: int) -> None:
        with turn:
            count[0] += 1
            mine = count[0]
        if mine >= broken:
            path = world.tmp / store.name / "p-1" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(next(iter(chunks))[:100])
            raise Crash
        genuine(store, name, chunks, size)

    world.run(1)
    monkeypatch.setattr(Store, "put", put)
    if broken <= 10:  # two copies of four parts and of the manifest
        with pytest.raises(Crash):
            world.backup().ship()
        assert world.check() == [2]
    else:
        assert world.backup().ship() is not None
    monkeypatch.undo()
    world.run(1)
    world.backup().ship()
    assert world.check()[-1] == 4
    assert world.objects() == world.referred()


def test_a_store_that_is_away_stops_nobody_and_is_told_once_and_so_is_its_return(world: World) -> None:
    backup = world.backup()
    world.run(1)
    backup.ship()
    gone = world.tmp / "store1"
    gone.rename(world.tmp / "elsewhere")
    for _ in range(2):
        world.run(1)
        assert backup.ship() is not None
    assert world.events("backup_store_away") == [world.stores[1].name]
    assert not gone.exists(), "a disk that is not mounted must not be written to"
    assert world.check(without=[1])[-1] == 3
    (world.tmp / "elsewhere").rename(gone)
    for _ in range(2):
        world.run(1)
        backup.ship()
    assert world.events("backup_store_away") == world.events("backup_store_back") == [world.stores[1].name]
    assert world.stores[1].name in {
        store
        for o in read_manifest(find("sums", None, world.keeper), world.stores, world.keeper).objects.values()  # type: ignore[union-attr]
        for store in o.stores
    }
    for lost in range(3):
        assert world.check(without=[lost])[-1] == 5


@pytest.mark.parametrize("ours", [False, True])
def test_a_folder_in_a_store_is_made_until_there_is_a_safe_point_and_in_the_home_always(
    world: World, ours: bool
) -> None:
    for number in range(3):
        shutil.rmtree(world.tmp / f"store{number}")
    world.run(1)
    assert world.backup(ours=ours).ship() is not None
    for number in range(3):
        shutil.rmtree(world.tmp / f"store{number}")
    world.run(1)
    if ours:
        assert world.backup(ours=ours).ship() is not None
        assert find("sums", None, world.keeper).epoch == 2
    else:
        with pytest.raises(TooFewStores):
            world.backup(ours=ours).ship()


def test_a_store_that_comes_back_empty_gets_its_copies_again(world: World) -> None:
    backup = world.backup()
    world.run(3)
    backup.ship()
    shutil.rmtree(world.tmp / "store1")
    world.run(1)
    backup.ship()
    world.stores[1].prepare()
    for _ in range(2):
        world.run(1)
        backup.ship()
    assert len(world.keeper.events(kinds=["backup_copies_lost"])) == 1
    for lost in (0, 2):
        target = world.tmp / f"without{lost}"
        restore("sums", None, [s for n, s in enumerate(world.stores) if n != lost], world.keeper, target)
        assert contents(target) == world.truths[6]


def test_without_enough_stores_there_is_no_safe_point(world: World) -> None:
    backup = world.backup(copies=3)
    world.run(1)
    (world.tmp / "store2").rename(world.tmp / "elsewhere")
    (world.tmp / "store2").touch()  # nor can it be made
    with pytest.raises(TooFewStores, match="store2"):
        backup.ship()
    assert world.keeper.safe_points("sums") == []
    (world.tmp / "store2").unlink()
    (world.tmp / "elsewhere").rename(world.tmp / "store2")
    assert backup.ship() is not None
    assert world.check(without=[0, 1]) == [1]


def test_a_store_that_hangs_counts_as_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    release, hung = threading.Event(), threading.Event()
    genuine = Store.put

    def put(store: Store, name: str, chunks: Iterable[bytes], size: int) -> None:
        if store is world.stores[0]:
            hung.set()
            release.wait(60)
            raise StoreFailed(store.name, "woke up")
        genuine(store, name, chunks, size)

    monkeypatch.setattr(Store, "put", put)
    world.run(1)
    assert world.backup(retry=Retry(attempts=1, pause_s=0.0, patience_s=1.0)).ship() is not None
    assert hung.is_set() and world.events("backup_store_away") == [world.stores[0].name]
    release.set()
    assert world.check(without=[0]) == [1]


def test_a_fenced_incarnation_records_nothing(world: World) -> None:
    backup = world.backup()
    world.run(1)
    backup.ship()
    world.run(1)
    successor = world.keeper.enlist("n1", code="c1")
    with pytest.raises(Fenced):
        backup.ship()
    assert world.check() == [1]
    world.run(1)
    world.backup(by=successor).ship()
    assert world.check() == [1, 3] and world.objects() == world.referred()


def test_two_replicas_that_ship_the_same_fragment_share_and_do_not_hurt_each_other(world: World) -> None:
    other = PaperQuery(world.tmp / "other", partitions=3, seed=2)  # its files differ byte for byte
    by = world.keeper.enlist("n2", code="c1")
    ours, theirs = world.backup(), world.backup(by=by, query=other)
    for turn in range(1, 9):
        world.query.run(1)
        other.run(1)
        first, query = (ours, world.query) if turn % 3 else (theirs, other)
        world.note(query)
        assert first.ship() is not None
        second = theirs if first is ours else ours
        assert second.ship() is None
        assert world.check()[-1] == turn
    assert world.objects() == world.referred()


def test_who_comes_second_loses_and_looks_again(world: World) -> None:
    other = PaperQuery(world.tmp / "other", partitions=3, seed=2).run(2)
    by = world.keeper.enlist("n2", code="c1")
    raced: list[bool] = []

    def at(step: str) -> None:
        if step == "manifest_stored" and not raced:
            raced.append(world.backup(by=by, query=other).ship() is not None)

    world.run(3)
    world.note(other)
    point = world.backup(at=at).ship()
    assert raced == [True] and point is not None and (point.epoch, point.built_on) == (3, 2)
    assert world.check() == [2, 3]
    world.run(1)
    world.backup().ship()
    assert world.objects() == world.referred()


def test_a_sweep_leaves_alone_what_another_replica_is_shipping(world: World) -> None:
    other = PaperQuery(world.tmp / "other", partitions=3, seed=2).run(5)
    by = world.keeper.enlist("n2", code="c1")
    stored, go_on = threading.Event(), threading.Event()

    def pause(step: str) -> None:
        if step == "manifest_stored":
            stored.set()
            go_on.wait(60)

    shipping = threading.Thread(target=world.backup(by=by, query=other, at=pause).ship)

    def at(step: str) -> None:
        if step == "recorded":  # the other one builds on this, and our sweep is still to come
            shipping.start()
            assert stored.wait(60)

    world.run(3)
    world.note(other)
    assert world.backup(at=at).ship() is not None
    go_on.set()
    shipping.join()
    assert world.check() == [3, 5]


def test_retention_keeps_exactly_what_kept_and_pinned_safe_points_need(world: World) -> None:
    backup = world.backup(keep=2)
    world.run(2)
    backup.ship()
    world.keeper.pin("sums", EpochNumber(2), "a snapshot")
    for _ in range(9):
        world.run(3)
        backup.ship()
        assert world.objects() == world.referred()
    assert world.check() == [2, 26, 29]
    world.keeper.unpin("sums", EpochNumber(2), "a snapshot")
    world.run(1)
    backup.ship()
    assert world.check() == [29, 30] and world.objects() == world.referred()
    folders = {path.name for store in range(3) for path in (world.tmp / f"store{store}" / "p-1" / "sums").iterdir()}
    assert folders == {name.split("/")[1] for name in world.objects()}, "no empty folder is left"


def test_what_cannot_be_removed_now_is_removed_later(world: World) -> None:
    backup = world.backup(keep=1)
    world.run(1)
    backup.ship()
    (world.tmp / "store1").rename(world.tmp / "elsewhere")
    world.run(5)
    backup.ship()
    (world.tmp / "elsewhere").rename(world.tmp / "store1")
    assert world.objects() != world.referred()
    for _ in range(2):
        world.run(1)
        backup.ship()
    assert world.check() == [8] and world.objects() == world.referred()


def test_an_object_of_which_little_is_needed_is_packed_anew(world: World) -> None:
    world.query = PaperQuery(world.tmp / "big", partitions=1, snapshot_every=1, sst_bytes=200_000)
    backup = world.backup(keep=1)
    sizes = []
    for _ in range(12):
        world.run(1)
        backup.ship()
        sizes.append(sum(world.stores[0].sizes("sums").values()) + sum(world.stores[1].sizes("sums").values()))
    assert world.check() == [12] and world.objects() == world.referred()
    assert len(world.query.shared[world.query.root / "state/0/0"]) == 3
    assert max(sizes) < 2 * 2 * 3 * 200_000 + 200_000, "two copies of at most twice three shared files"


def test_a_checkpoint_that_lacks_a_file_makes_no_safe_point(world: World) -> None:
    world.run(3)
    (world.query.root / "state/0/2/2.changelog").unlink()
    with pytest.raises(StateDamaged, match=r"state/0/2/2.changelog"):
        world.backup().ship()
    assert world.keeper.safe_points("sums") == []


def test_if_the_newest_manifest_is_lost_everything_ships_anew(world: World) -> None:
    world.run(2)
    point = world.backup().ship()
    assert point is not None
    for store in world.stores:
        store.remove([point.manifest])
    world.run(1)
    assert world.backup().ship() is not None
    target = world.tmp / "restored"
    restore("sums", None, world.stores, world.keeper, target)
    assert contents(target) == world.truths[3]
    with pytest.raises(StateDamaged, match=r"manifest\.json"):
        restore("sums", EpochNumber(2), world.stores, world.keeper, world.tmp / "never")


def test_copies_need_as_many_different_stores(world: World) -> None:
    with pytest.raises(DeclarationError, match="4 copies cannot be kept in 3 stores"):
        world.backup(copies=4)
    world.stores.append(world.stores[0])
    with pytest.raises(DeclarationError, match="named twice"):
        world.backup()


def test_in_the_background_only_the_newest_of_what_was_offered_ships(world: World) -> None:
    busy, go_on = threading.Event(), threading.Event()

    def at(step: str) -> None:
        if step == "captured":
            busy.set()
            go_on.wait(60)

    backup = world.backup(at=at)
    backup.start()
    world.run(1)
    backup.offer(EpochNumber(1))
    assert busy.wait(60)
    for epoch in range(2, 8):
        world.run(1)
        backup.offer(EpochNumber(epoch))  # returns, though the backup is in the middle of the first
    go_on.set()
    assert backup.wait(EpochNumber(7), 60)
    backup.close()
    assert backup.error is None and world.check() == [1, 7]


def test_in_the_background_a_failure_is_told_and_tried_again(world: World) -> None:
    failures = iter([OSError("planned"), OSError("planned"), None])

    def at(step: str) -> None:
        if step == "captured" and (error := next(failures, None)) is not None:
            raise error

    backup = world.backup(at=at)
    backup.start()
    world.run(1)
    backup.offer(EpochNumber(1))
    assert backup.wait(EpochNumber(1), 60)
    backup.close()
    told = [event.detail["reason"] for event in world.keeper.events(kinds=["backup_failed"])]
    assert told == ["OSError: planned"] and next(failures, "used up") == "used up"


def test_in_the_background_a_fenced_incarnation_stops(world: World) -> None:
    backup = world.backup()
    world.run(1)
    world.keeper.enlist("n1", code="c1")
    backup.start()
    backup.offer(EpochNumber(1))
    thread = backup._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive() and isinstance(backup.error, Fenced) and world.keeper.safe_points("sums") == []
