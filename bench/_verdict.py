"""What came out of a workload, judged against what should have: lost, duplicated, changed and wrong rows.

What counts is what a reader of the output sees: each output as it was when it became visible, and what is there in
the end. Where an output is shown again under its name with other rows, or is gone, the difference is ``changed``, even
if the rows that are there in the end are right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_pandas_object

from bench._feed import Staged
from bench._workload import Numbers, Workload
from bench.peers.base import Peer, Sight

HASHED_ROWS = 100_000
NULL_INTEGER = -(2**52) + 7
NULL_STRING = "\0null"
DOUBLES_DIGITS = 6
"""Sums of doubles depend on their order in the last digits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lost`` expected rows were not there in the end, ``duplicated`` were there more than once (where rows are
    appended), ``wrong`` had another content than expected or a key that was not, ``changed`` were seen and later not
    there any more, or other ones under the same name of output. ``problem``: what a check of the workload's own
    says."""

    expected: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    changed: int = 0
    problem: str = ""

    @property
    def is_right(self) -> bool:
        """Whether what is there in the end is what should be."""
        return not (self.lost or self.duplicated or self.wrong or self.problem)

    def __str__(self) -> str:
        counts = {name: getattr(self, name) for name in ("lost", "duplicated", "wrong", "changed")}
        said = [f"{count:,} {name}" for name, count in counts.items() if count]
        return ", ".join([*said, *filter(None, [self.problem])]) or f"exact ({self.expected:,} rows)"


def judged(peer: Peer, staged: Staged, expected: pa.Table | None) -> Verdict:
    """All that a peer has put out. ``expected`` is None where the workload has a check of its own."""
    workload = staged.workload
    found = in_the_end([columns(table, workload) for table in peer.results()], workload)
    changed = rows_changed(peer.look(), peer.gone(), lambda path: columns(peer.read(path), workload))
    if workload.check is not None:
        problem = workload.check(staged.steps, found, workload.parameters)
        return Verdict(expected=found.num_rows, changed=changed, problem=problem)
    if expected is None:
        raise ValueError(f"nothing to compare {workload.name} with")
    lost, duplicated, wrong = compared(found, expected, workload)
    return Verdict(expected.num_rows, lost, duplicated, wrong, changed)


def columns(table: pa.Table, workload: Workload) -> pa.Table:
    """Those that are judged, in one form whatever the peer: integers and booleans are long, doubles are rounded."""
    found = {}
    for name in workload.names:
        column = table[name]
        if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_floating(column.type):
            column = pc.round(column.cast(pa.float64()), DOUBLES_DIGITS)
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        elif pa.types.is_large_string(column.type) or pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        found[name] = column
    return pa.table(found)


def in_the_end(tables: Sequence[pa.Table], workload: Workload) -> pa.Table:
    """What all outputs come to: every row, or of each key the newest one."""
    if not tables:
        return empty(workload)
    together = pa.concat_tables(tables, promote_options="permissive")
    if workload.mode == "append" or not together.num_rows:
        return together
    assert workload.cause is not None
    numbered = together.append_column("_cause", pa.array(workload.cause(together, workload.parameters)))
    numbered = numbered.append_column("_place", pa.array(np.arange(together.num_rows)))
    ordered = numbered.sort_by([("_cause", "ascending"), ("_place", "ascending")])
    ordered = ordered.append_column("_rank", pa.array(np.arange(together.num_rows)))
    newest = ordered.group_by(list(workload.key)).aggregate([("_rank", "max")])["_rank_max"]
    return ordered.take(newest).select(workload.names)


def empty(workload: Workload) -> pa.Table:
    return pa.table({name: pa.array([], pa.null()) for name in workload.names})


def compared(found: pa.Table, expected: pa.Table, workload: Workload) -> tuple[int, int, int]:
    """How many rows are lost, duplicated and wrong."""
    expected = columns(expected, workload)
    wanted, seen = hashes(expected, workload.names), hashes(found, workload.names)
    each = np.union1d(wanted, seen)
    due, there = counted(wanted, each), counted(seen, each)
    if np.array_equal(due, there):
        return 0, 0, 0
    surplus = np.maximum(there - due, 0)
    missing = np.isin(wanted, each[due > there])
    without = ~np.isin(hashes(expected, workload.key), hashes(found, workload.key))
    return int((missing & without).sum()), int(surplus[due > 0].sum()), int(surplus[due == 0].sum())


def hashes(table: pa.Table, names: Sequence[str]) -> npt.NDArray[np.uint64]:
    """A number for each row, the same for the same content in these columns."""
    found = [np.array([], np.uint64)]
    for batch in pa.table({name: _filled(table[name]) for name in names}).to_batches(HASHED_ROWS):
        found.append(hash_pandas_object(batch.to_pandas(), index=False).to_numpy())
    return np.concatenate(found)


def counted(values: npt.NDArray[np.uint64], each: npt.NDArray[np.uint64]) -> Numbers:
    """How often each comes."""
    unique, counts = np.unique(values, return_counts=True)
    found = np.zeros(len(each), np.int64)
    found[np.searchsorted(each, unique)] = counts
    return found


def _filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without nulls, which would change the type of what they are among."""
    if not column.null_count:
        return column
    kind = column.type
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.array([NULL_INTEGER] * len(column), pa.int64())])
    if pa.types.is_string(kind):
        return pc.fill_null(column, NULL_STRING)
    return pc.fill_null(column, pa.scalar(NULL_INTEGER, pa.int64()).cast(kind))


def rows_changed(sight: Sight, gone: Iterable[str], read: Callable[[Path], pa.Table]) -> int:
    """How many rows a reader saw under a name that were not there under it later."""
    names: dict[str, list[tuple[Path, ...]]] = {}
    for shown in sight.all:
        names.setdefault(shown.name, []).append(shown.kept)
    lost = set(gone)
    changed = 0
    for name, generations in names.items():
        if len(generations) > 1 or name in lost:
            contents = [Counter(row for path in kept for row in rows(read(path))) for kept in generations]
            if name in lost:
                contents.append(Counter())
            changed += sum((before - after).total() for before, after in pairwise(contents))
    return changed


def rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """Each row as a tuple."""
    if not table.num_rows:
        return iter(())
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
