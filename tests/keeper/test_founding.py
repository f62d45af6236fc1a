"""Opening a keeper: whose it is, what version, and what is said when it cannot be opened."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rekindle.errors import DeclarationError, HomeUnusable, KeeperUnavailable, RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.schema import SCHEMA_VERSION
from tests.keeper.place import Place, damage
from tests.postgres import PostgresServer


def test_opening_again_finds_what_was_there(place: Place) -> None:
    first = place.open()
    me = first.enlist("n1", code="c")
    first.close()
    assert [m.incarnation for m in place.open().members()] == [me]


def test_several_open_a_new_keeper_at_the_same_moment(place: Place) -> None:
    start = threading.Barrier(6)
    opened: list[Keeper] = []
    errors: list[BaseException] = []

    def open_one() -> None:
        start.wait()
        try:
            opened.append(place.open())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(opened) == 6
    assert len({keeper.enlist("n", code="") for keeper in opened}) == 6


@pytest.mark.parametrize(
    ("step", "whose", "hint"), [(1, "newer Rekindle", "upgrade"), (-1, "older Rekindle", "new home")]
)
def test_another_version_is_refused(place: Place, step: int, whose: str, hint: str) -> None:
    damage(place.open(), f"UPDATE {{}}meta SET value = '{SCHEMA_VERSION + step}' WHERE name = 'version'")
    with pytest.raises(HomeUnusable, match=whose) as raised:
        place.open()
    assert hint in raised.value.hint


def test_a_damaged_description_is_refused(place: Place) -> None:
    damage(place.open(), "DELETE FROM {}meta WHERE name = 'home'")
    with pytest.raises(HomeUnusable, match="description is damaged"):
        place.open()


def test_another_home_is_refused(place: Place) -> None:
    place.open()
    place.home = replace(place.home, id="another")
    with pytest.raises(HomeUnusable, match="belong to another home"):
        place.open()


def test_another_pipeline_in_the_same_file_is_refused(sqlite_place: Place) -> None:
    sqlite_place.open()
    sqlite_place.home = replace(sqlite_place.home, pipeline="other")
    with pytest.raises(HomeUnusable, match="belongs to the pipeline"):
        sqlite_place.open()


def test_pipelines_share_a_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    one, two = Place(tmp_path, postgres.url), Place(tmp_path, postgres.url)
    long_names = ["p" * 62 + "x", "p" * 62 + "y"]
    for place, name in zip((one, two), long_names, strict=True):
        place.home = replace(place.home, pipeline=name)
        assert place.open().enlist("n", code="") == 1
    one.close()
    two.close()


def test_a_home_of_postgresql_never_falls_back_to_sqlite(tmp_path: Path) -> None:
    home = Home(tmp_path, "p", "h", "postgresql://u@h/d")
    with pytest.raises(HomeUnusable, match="has its records on PostgreSQL"):
        open_keeper(None, home=home)
    assert not home.keeper_file.exists()


def refusal(url: str, folder: Path) -> RekindleError:
    home = Home(folder, "p", "h", "postgresql")
    with pytest.raises(RekindleError) as raised:
        open_keeper(url, home=home, patience_s=0.2)
    assert raised.value.hint
    return raised.value


def everything_told(error: BaseException) -> str:
    told = []
    link: BaseException | None = error
    while link is not None:
        told += [str(link), repr(link), repr(link.args)]
        link = link.__cause__ or link.__context__
    return "\n".join(told)


@pytest.mark.parametrize(
    ("old", "new", "kind", "says"),
    [
        ("{password}", "wrong-secret", DeclarationError, "user and password"),
        (":{password}", "", DeclarationError, "user and password"),
        ("/postgres", "/nothing_here", DeclarationError, "no database 'nothing_here'"),
        ("{port}", "1", KeeperUnavailable, "did not answer"),
        ("127.0.0.1", "no-such-host.invalid", KeeperUnavailable, "did not answer"),
    ],
)
def test_a_server_that_cannot_be_used(
    postgres: PostgresServer, tmp_path: Path, old: str, new: str, kind: type[RekindleError], says: str
) -> None:
    old = old.format(password=postgres.password, port=f":{postgres.port}") if "{" in old else old
    url = postgres.url.replace(old, f":{new}" if old.startswith(":") and new else new)
    error = refusal(url, tmp_path)
    assert type(error) is kind and says in error.primary
    told = everything_told(error)
    assert postgres.password not in told and "wrong-secret" not in told


def test_a_user_without_rights(postgres: PostgresServer, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE poor LOGIN PASSWORD 'poor-secret'")
    error = refusal(f"postgresql://poor:poor-secret@127.0.0.1:{postgres.port}/postgres", tmp_path)
    assert isinstance(error, KeeperUnavailable) and "lack of rights" in error.primary and "GRANT" in error.hint
    assert "poor-secret" not in everything_told(error)


def test_sqlite_is_not_given_by_address(tmp_path: Path) -> None:
    assert "leave the keeper's address out" in refusal("sqlite:///x.db", tmp_path).hint


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeeperUnavailable, match="file cannot be used"):
        open_keeper(None, home=Home(tmp_path / "nowhere", "p", "h", "sqlite"))
