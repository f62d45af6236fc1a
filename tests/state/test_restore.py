"""Restore: any good copy will do, every damage is reported, and what is lost everywhere is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from rekindle.errors import BrokenInvariant, StateDamaged
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, SafePoint
from rekindle.state import checkpoint
from rekindle.state.backup import Backup
from rekindle.state.manifest import Manifest, digest_of
from rekindle.state.restore import in_turn, read_manifest, restore
from rekindle.state.stores import Store
from tests.state.paper import PaperQuery, contents


def missing(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path) -> None:
    """Every tenth byte is another, so that each file in it is hit."""
    content = bytearray(path.read_bytes())
    content[::10] = bytes(byte ^ 0x55 for byte in content[::10])
    path.write_bytes(content)


DAMAGES = [missing, cut, flipped]


@pytest.fixture
def query(tmp_path: Path, keeper: Keeper, me: Incarnation, stores: list[Store]) -> PaperQuery:
    """Backed up at epochs 5 and 9, in two copies each."""
    query = PaperQuery(tmp_path / "c", partitions=3)
    backup = Backup("sums", query.root, stores, 2, keeper, me, scratch=tmp_path / "scratch")
    for batches in (5, 4):
        query.run(batches)
        assert backup.ship() is not None
    return query


def files_of(store: Store, name: str = "") -> list[Path]:
    return [Path(store.name) / "p-1" / found for found in store.sizes("sums") if name in found]


def damaged(keeper: Keeper) -> set[tuple[str, str]]:
    return {(e.detail["store"], e.detail["object"]) for e in keeper.events(kinds=["restore_copy_damaged"])}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("victim", range(3))
def test_damage_in_one_store_is_survived_and_reported(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path, damage: Callable[[Path], None], victim: int
) -> None:
    asked_first = {name for point in keeper.safe_points("sums") for name in first_of(stores, victim, point, keeper)}
    for path in files_of(stores[victim]):
        damage(path)
    assert restore("sums", None, stores, keeper, tmp_path / "r") == checkpoint.Standing(8, EpochNumber(9))
    whole = contents(tmp_path / "r")
    checkpoint.fork(query.root, tmp_path / "fork")
    assert whole == {path: content for path, content in contents(tmp_path / "fork").items() if path in whole}
    restore("sums", EpochNumber(5), stores, keeper, tmp_path / "older")
    assert damaged(keeper) == {(stores[victim].name, name) for name in asked_first}


def test_every_store_is_asked_first_for_something(query: PaperQuery, keeper: Keeper, stores: list[Store]) -> None:
    """Reading is spread, and the test above means something, whichever names the objects were given."""
    point = keeper.safe_points("sums")[-1]
    manifest = read_manifest(point, stores, keeper)
    assert manifest is not None
    turns = {in_turn(stores, [s.name for s in stores], n)[0].name for n in range(len(stores))}
    assert turns == {store.name for store in stores}
    assert {name for item in manifest.objects.values() for name in item.stores} == turns


def first_of(stores: list[Store], victim: int, point: SafePoint, keeper: Keeper) -> set[str]:
    """What a restore of a safe point asks one store for before any other."""
    manifest = read_manifest(point, stores, keeper)
    assert manifest is not None
    used = {place.object for place in manifest.files.values()}
    items = [manifest.objects[name] for name in used]
    found = {i.name for i in items if in_turn(stores, i.stores, crc32(i.name.encode()))[0] is stores[victim]}
    return found | ({point.manifest} if in_turn(stores, point.stores, point.epoch)[0] is stores[victim] else set())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("part", ["state-0-1.tar", "logs.tar", "manifest.json"])
def test_damage_in_all_stores_is_refused_by_name(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path, damage: Callable[[Path], None], part: str
) -> None:
    for store in stores:
        for path in files_of(store, part):
            damage(path)
    lost = {"state-0-1.tar": r"state/0/1/", "logs.tar": r"(commits|sources)/", "manifest.json": r"manifest\.json"}[part]
    with pytest.raises(StateDamaged, match=rf"epoch 9 has no good copy of .*{lost}"):
        restore("sums", None, stores, keeper, tmp_path / "r")
    assert damaged(keeper) and list(tmp_path.glob("*r*estor*")) == [] and not (tmp_path / "r").exists()


def test_two_damaged_copies_may_still_make_a_good_file_each(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path
) -> None:
    point = keeper.safe_point("sums")
    assert point is not None
    held = next(store for store in stores if store.name in point.stores)
    manifest = Manifest.from_bytes(b"".join(held.read(point.manifest)))
    name, item = next(
        (n, o) for n, o in manifest.objects.items() if sum(p.object == n for p in manifest.files.values()) > 1
    )
    places = sorted(((p.offset, e) for e, p in manifest.files.items() if p.object == name and e.bytes))
    for store, (offset, _) in zip(item.stores, places, strict=False):
        path = Path(store) / "p-1" / name
        content = bytearray(path.read_bytes())
        content[offset] ^= 1
        path.write_bytes(content)
    assert restore("sums", None, stores, keeper, tmp_path / "r").epoch == 9
    assert (item.stores[0], name) in damaged(keeper) or (item.stores[1], name) in damaged(keeper)


def test_a_store_that_is_away_and_one_that_was_moved(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path
) -> None:
    (tmp_path / "store0").rename(tmp_path / "moved")
    assert restore("sums", None, stores, keeper, tmp_path / "r1").epoch == 9
    assert {store for store, _ in damaged(keeper)} <= {stores[0].name}  # it may have been asked for nothing
    (tmp_path / "store1").rename(tmp_path / "gone")
    with pytest.raises(StateDamaged, match="no good copy"):
        restore("sums", None, stores, keeper, tmp_path / "r2")
    moved = Store(str(tmp_path / "moved"), "p-1")
    assert restore("sums", None, [stores[2], moved], keeper, tmp_path / "r3").epoch == 9
    assert contents(tmp_path / "r3") == contents(tmp_path / "r1")


def test_what_is_no_safe_point_is_refused(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path
) -> None:
    with pytest.raises(BrokenInvariant, match="has not a safe point at epoch 6"):
        restore("sums", EpochNumber(6), stores, keeper, tmp_path / "r")
    with pytest.raises(BrokenInvariant, match="'counts' has not a safe point"):
        restore("counts", None, stores, keeper, tmp_path / "r")
    (tmp_path / "r").mkdir()
    with pytest.raises(BrokenInvariant, match="there already"):
        restore("sums", None, stores, keeper, tmp_path / "r")


def test_what_a_crash_of_an_earlier_restore_left_is_no_hindrance(
    query: PaperQuery, keeper: Keeper, stores: list[Store], tmp_path: Path
) -> None:
    (tmp_path / ".r.restoring" / "commits").mkdir(parents=True)
    (tmp_path / ".r.restoring" / "commits" / "99").write_text("v1")
    assert restore("sums", None, stores, keeper, tmp_path / "r").epoch == 9
    assert not (tmp_path / ".r.restoring").exists()


def test_a_newer_safe_point_may_come_and_the_older_one_go_meanwhile(
    query: PaperQuery, keeper: Keeper, me: Incarnation, stores: list[Store], tmp_path: Path
) -> None:
    backup = Backup("sums", query.root, stores, 2, keeper, me, scratch=tmp_path / "scratch", keep=1)

    shipped: list[EpochNumber] = []

    class Slow(Store):
        """Once the manifest is read, the backup goes on and removes what it refers to."""

        def read(self, name: str, ranges: Sequence[tuple[int, int]] | None = None) -> Generator[bytes, None, None]:
            yield from super().read(name, ranges)
            if name.endswith("manifest.json") and not shipped:
                query.run(8)
                point = backup.ship()
                assert point is not None
                shipped.append(point.epoch)

    slow = [Slow(store.name, "p-1") for store in stores]
    assert restore("sums", None, slow, keeper, tmp_path / "r").epoch == 17
    assert shipped == [17] and damaged(keeper), "what epoch 9 referred to was missed"


def test_a_manifest_cannot_lead_out_of_the_checkpoint(query: PaperQuery, keeper: Keeper, stores: list[Store]) -> None:
    content = b"".join(stores[0].read(next(n for n in stores[0].sizes("sums") if n.endswith("manifest.json"))))
    assert Manifest.from_bytes(content).to_bytes() == content and len(digest_of(content)) == 16
    with pytest.raises(StateDamaged, match="leads out"):
        Manifest.from_bytes(content.replace(b'"metadata"', b'"../etc/pw"'))
    with pytest.raises(StateDamaged, match="version 9"):
        Manifest.from_bytes(content.replace(b'"version":1', b'"version":9'))
