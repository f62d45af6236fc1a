"""The code that epochs are computed again with: a pipeline file, and whether it is the one that ran last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import DeclarationError
from rekindle.home import Home
from rekindle.java import check_java
from rekindle.keeper import Keeper
from rekindle.keeper.ledger import Ledger
from rekindle.load import fingerprint, load_pipeline
from rekindle.pipeline import Pipeline
from rekindle.plan import check

if TYPE_CHECKING:
    from rekindle.node.bench import Bench


@dataclass(frozen=True, slots=True)
class Code:
    """The pipeline that is recomputed with: its declarations, a bench for it, and whether it is what ran last."""

    file: Path
    pipeline: Pipeline
    bench: Callable[[Ledger, Path], AbstractContextManager[Bench]]
    changed: str


def code_of(home: Home, keeper: Keeper, file: Path | None, cores: int) -> Code:
    """The pipeline that is recomputed with. Raises DeclarationError if there is no file, or it is another pipeline."""
    recorded = keeper.file()
    if file is None:
        if recorded is None:
            raise DeclarationError(
                "it is not on record which pipeline file ran on this home", hint="name it: --file, or --no-recompute"
            )
        file = Path(recorded[0])
        if not file.exists():
            raise DeclarationError(
                "the pipeline file that ran on this home is gone",
                detail=str(file),
                hint="name another copy: --file; or leave out what needs it: --no-recompute",
            )
    pipeline = load_pipeline(file)
    check(pipeline)
    if pipeline.name != home.pipeline:
        raise DeclarationError(
            f"the home belongs to the pipeline {home.pipeline!r}, the file declares {pipeline.name!r}", detail=str(file)
        )
    changed = f"{file} is what ran last"
    if recorded is None:
        changed = "it is not on record which file made these epochs"
    elif recorded[1] != fingerprint(file, pipeline):
        changed = f"{file} is not what ran last: audit with the code that made these epochs (--file)"
    check_java()

    def bench(ledger: Ledger, scratch: Path) -> AbstractContextManager[Bench]:
        from rekindle.node.bench import open_bench

        return open_bench(home, pipeline, ledger.streams, cores, scratch)

    return Code(file.absolute(), pipeline, bench, changed)
