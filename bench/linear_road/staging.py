"""The input of one run, made before it: files in a hidden folder of their own, and the answers that they have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bench.linear_road import expenditures
from bench.linear_road.generate import Ints, Traffic, table, write_history
from bench.linear_road.oracle import Oracle

WARM_FILE_S = 10
TELL_S = 60


@dataclass(frozen=True, slots=True)
class Staged:
    """``warm`` files hold the seconds before ``warm_s``, ``paced`` ones a second each."""

    warm: list[Path]
    paced: list[Path]
    warm_s: int
    rows: int
    paced_rows: int
    store: Path
    answers: Mapping[int, npt.NDArray[np.int64]]


def stage(folder: Path, traffic: Traffic, warm_s: int, say: Callable[[str], None]) -> Staged:
    """Generates ``traffic``, writes it, and asks the oracle."""
    reports = folder / "staged"
    reports.mkdir(parents=True)
    oracle = Oracle()
    held: list[pa.Table] = []
    warm: list[Path] = []
    paced: list[Path] = []
    rows = paced_rows = vids = 0
    for time, second in enumerate(traffic.rows()):
        oracle.rows({name: of.tolist() for name, of in second.items()})
        held.append(table(second))
        rows += len(held[-1])
        vids = max(vids, _largest(second["vid"]))
        is_warm = time < warm_s
        if is_warm and (time + 1) % WARM_FILE_S and time + 1 < warm_s:
            continue
        path = reports / f"{time:06d}.parquet"
        pq.write_table(pa.concat_tables(held), path)
        (warm if is_warm else paced).append(path)
        paced_rows += 0 if is_warm else len(held[-1])
        held = []
        if (time + 1) % TELL_S == 0:
            say(f"generated {time + 1} of {traffic.seconds} s, {rows:,} rows")
    history, store = folder / "history.parquet", folder / "history.store"
    write_history(history, vids, traffic.expressways, traffic.seed)
    expenditures.load(history, store)
    answers = oracle.answers(history)
    history.unlink()
    say(f"{rows:,} rows, {vids:,} cars, {sum(len(of) for of in answers.values()):,} answers expected")
    return Staged(warm, paced, warm_s, rows, paced_rows, store, answers)


def _largest(numbers: Ints) -> int:
    return int(numbers.max()) if len(numbers) else 0
