"""Reading a keeper's URL."""

from __future__ import annotations

import pytest

from rekindle.errors import DeclarationError
from rekindle.keeper.address import IDENTIFIER_BYTES_MAX, parse, schema_name


def test_what_is_shown_has_no_secret() -> None:
    address = parse("postgresql://me:s3cret@host:99/db?sslpassword=s4cret")
    assert address.shown == "postgresql://me@host:99/db"
    assert address.url is not None and address.url.drivername == "postgresql+psycopg"
    assert address.url.password == "s3cret"
    assert "s3cret" not in repr(address.url)


def test_a_slash_in_a_password_is_understood() -> None:
    address = parse("postgresql://u:s3/cret@h/d")
    assert address.url is not None and address.url.password == "s3/cret"
    assert address.shown == "postgresql://u@h/d"


def test_settings_of_the_url_come_first() -> None:
    assert "connect_timeout" not in parse("postgresql://h/d?connect_timeout=99").libpq()
    assert parse("postgresql://h/d").libpq()["connect_timeout"] == "5"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("postgres://u:s3cret@h/d", "did you mean postgresql://"),
        ("postgresql+psycopg2://u:s3cret@h/d", "did you mean postgresql://"),
        ("postgressql://u:s3cret@h/d", "did you mean postgresql://"),
        ("sqlite+x:///a", "SQLite in the home is the default"),
        ("mysql://u:s3cret@h/d", "a keeper is postgresql://"),
        ("u:s3cret@h", "a keeper is postgresql://"),
        ("postgresql://u:s3@cret@h/d", "%40 for @"),
        ("postgresql://u:s3cret@h:s3cret/d", "write postgresql://"),
        ("postgresql:///d", "write postgresql://"),
    ],
)
def test_other_addresses_are_refused_with_a_way_out(url: str, hint: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        parse(url)
    assert hint in raised.value.hint
    told = f"{raised.value}{raised.value.__cause__}{raised.value.__context__}"
    assert "s3cret" not in told and "cret@" not in told


def test_schema_names_stay_apart_and_fit() -> None:
    names = {schema_name("p" * 62 + end) for end in "abc"} | {schema_name("p" * 54)}
    assert len(names) == 4 and all(len(name) <= IDENTIFIER_BYTES_MAX for name in names)
    assert schema_name("words") == "rekindle_words"
