"""The user's page names everything that a user can set, where it belongs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

import rekindle as rk
from rekindle import errors
from rekindle.errors import RekindleError
from rekindle.verify.faults import KINDS

USING = Path(__file__).parents[1] / "docs" / "using.md"


def section(title: str) -> str:
    parts = re.split(r"^## (.+)$", USING.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[title]


def keywords(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]


NAMED = [
    *(("Settings", field.name) for field in fields(rk.Settings)),
    *(("Settings", name) for name in keywords(rk.Pipeline)),
    *(("Streams", name) for name in keywords(rk.Pipeline.stream)),
    *(("Sources", name) for name in keywords(rk.Pipeline.source)),
    *(("Sinks", name) for name in keywords(rk.Pipeline.sink)),
]


@pytest.mark.parametrize(("title", "name"), NAMED)
def test_what_can_be_set_is_named(title: str, name: str) -> None:
    assert re.search(rf"`(?:[^`]*[ (,])?{name}[`=]", section(title)), f"{name} is missing in section {title}"


def test_the_settings_have_the_defaults_that_the_table_says() -> None:
    rows = re.findall(r"^\| (`.+?`) \| (.+?) \|", section("Settings"), flags=re.MULTILINE)
    said: dict[str, str] = {}
    for names, values in rows:
        said |= dict(zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True))
    defaults = {field.name: getattr(rk.Settings(), field.name) for field in fields(rk.Settings)}
    assert said.pop("spark") == "none"
    assert {name: float(value) for name, value in said.items()} == {n: v for n, v in defaults.items() if n != "spark"}


def test_how_long_epochs_stay_is_said_to_users() -> None:
    assert rk.Settings().retain_s == 3600
    said = r"A published epoch is removed.* an hour old and nobody in the pipeline needs it any more"
    for page in (USING, USING.parents[1] / "README.md"):
        assert re.search(said, " ".join(page.read_text().split())), page


def test_every_exit_code_is_in_the_table() -> None:
    codes = {e.exit_code for e in vars(errors).values() if isinstance(e, type) and issubclass(e, RekindleError)}
    said = re.findall(r"^\| (\d+) \|", section("The command line"), flags=re.MULTILINE)
    assert {int(code) for code in said} == codes | {0, 130}


def test_every_fault_is_explained() -> None:
    text = (USING.parent / "verify.md").read_text()
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
