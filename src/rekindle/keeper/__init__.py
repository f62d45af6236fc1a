"""The house-keeper: the transactional record of everything recovery needs.

This room knows nothing of Spark. ``open_keeper`` gives a ``Keeper``, whose methods are the verbs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rekindle.errors import DeclarationError, HomeUnusable

if TYPE_CHECKING:
    from rekindle.home import Home
    from rekindle.keeper.keeper import Keeper

__all__ = ["Keeper", "open_keeper"]


def __getattr__(name: str) -> Any:
    """``Keeper`` is imported when it is asked for: who only declares a pipeline loads no database."""
    if name == "Keeper":
        from rekindle.keeper.keeper import Keeper

        return Keeper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open_keeper(
    url: str | None,
    *,
    home: Home,
    clock: Callable[[], float] = time.time,
    patience_s: float = 60.0,
    read_only: bool = False,
) -> Keeper:
    """Open the keeper of ``home``; make its tables if there are none. A ``read_only`` one changes nothing.

    ``url`` is postgresql://...; None is SQLite in the home. Raises DeclarationError for an address or a
    password that cannot be right, HomeUnusable if the records are another home's or a newer version's,
    KeeperUnavailable if nobody answered for ``patience_s``.
    """
    from rekindle.keeper.address import SQLITE, parse
    from rekindle.keeper.keeper import Keeper

    if url is None:
        if home.keeper_url != "sqlite":
            raise HomeUnusable(
                "this home has its records on PostgreSQL, and no address of a keeper was given",
                detail=f"{home.root} has its records in {home.keeper_url}",
                hint="give the address again, with its password",
            )
        if read_only and not home.keeper_file.exists():
            raise HomeUnusable(
                "the home's records are gone",
                detail=f"there is no {home.keeper_file}",
                hint="bring keeper.db, with keeper.db-wal if there is one, back from a copy",
            )
        url = f"{SQLITE}{home.keeper_file}"
    elif parse(url).kind == "sqlite":
        raise DeclarationError(
            "a keeper on SQLite has no address of its own",
            hint="leave the keeper's address out: SQLite in the home is the default",
        )
    return Keeper(url, home_id=home.id, pipeline=home.pipeline, clock=clock, patience_s=patience_s, read_only=read_only)
