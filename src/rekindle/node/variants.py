"""The same epochs, computed in another way that must make no difference.

A variant has another number of shuffle partitions, and inputs whose rows were shuffled within their epoch and put into
other files, of other sizes: so tasks take other rows, in another order. An input whose positions are read stays as it
is, since ``rk.position()`` is on record: only what is sorted by it may depend on order.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from rekindle.home import Home
from rekindle.keeper.records import Epoch, Segment
from rekindle.node.bench import Bench, with_partitions
from rekindle.node.claims import Work
from rekindle.node.replay import Replay
from rekindle.plan import Fragment, Traits
from rekindle.streams.segments import checksum, read_table
from rekindle.streams.writer import segment_name

FILES = 3


@dataclass(frozen=True, slots=True)
class Variant:
    """``shuffle`` is the seed of the order of rows, None to leave them as they are."""

    partitions: int
    shuffle: int | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """What an operator computed: its schema as Spark's JSON, and by epoch the digest and the files of its rows.
    ``error`` is the reason why it could not, with no epochs then."""

    schema: str
    digests: Mapping[int, str]
    files: Mapping[int, tuple[str, ...]]
    error: str = ""


def up_to(fragment: Fragment, operator: str, traits: Mapping[str, Traits]) -> Fragment:
    """The part of a fragment that ``operator`` is computed by, as a fragment of its own."""
    by_name = {o.name: o for o in fragment.operators}
    wanted: set[str] = set()
    pending = [operator]
    while pending:
        name = pending.pop()
        if name in by_name and name not in wanted:
            wanted.add(name)
            pending += by_name[name].inputs
    operators = tuple(o for o in fragment.operators if o.name in wanted)
    stateful = [o for o in operators if traits[o.name].stateful]
    return replace(
        fragment,
        name=operator,
        operators=operators,
        inputs=tuple(dict.fromkeys(i for o in operators for i in o.inputs if i not in wanted)),
        output_mode=stateful[0].output_mode if stateful else "append",
        stateful=bool(stateful),
        has_watermark=any(traits[o.name].has_watermark for o in operators),
    )


def compute(bench: Bench, part: Fragment, works: Sequence[Work], variant: Variant, keep: Path) -> Computed:
    """Compute ``works`` from an empty state, in one variant. The rows are in the folder ``keep`` afterwards, which must
    not exist, and is on the home's file system."""
    keep.mkdir(parents=True)
    digests: dict[int, str] = {}
    files: dict[int, tuple[str, ...]] = {}
    schema = bench.analysis.schemas[part.name].json()
    replay = Replay(with_partitions(bench, variant.partitions), replace(part, partitions=None), keep / "scratch")

    def take(rows: DataFrame, work: Work) -> None:
        written = replay.write(rows, work)
        digests[work.epoch] = written.output.digest
        kept = []
        for file in written.files:
            kept.append(str(keep / file.name))
            os.rename(file, kept[-1])
        files[work.epoch] = tuple(kept)
        written.drop()

    taken = [narrowed(work, part) for work in works]
    try:
        if variant.shuffle is not None:
            spared = {i for o in part.operators for i in bench.analysis.traits[o.name].reads_positions_of}
            taken = [shuffled(work, variant.shuffle, bench.home, keep / "inputs", spared) for work in taken]
        replay.run(taken, take)
    except Exception as error:  # of the user's code, most likely: that it fails in one variant only is worth knowing
        return Computed(schema, {}, {}, f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(keep / "inputs", ignore_errors=True)
    return Computed(schema, digests, files)


def narrowed(work: Work, part: Fragment) -> Work:
    """What a part of a fragment takes in of a claim."""
    return Work(work.claim, {name: of for name, of in work.inputs.items() if name in part.inputs})


def shuffled(work: Work, seed: int, home: Home, folder: Path, spared: set[str]) -> Work:
    """The same rows in other files and in another order, within each epoch; not those of ``spared`` inputs."""
    inputs = {}
    for name, epochs in work.inputs.items():
        inputs[name] = epochs if name in spared else [_shuffled(e, seed, home, folder) for e in epochs]
    return Work(work.claim, inputs)


def _shuffled(epoch: Epoch, seed: int, home: Home, folder: Path) -> Epoch:
    if not epoch.output.segments:
        return epoch
    place = folder / epoch.stream / str(epoch.epoch)
    rows = read_table(home, [epoch])
    if not place.exists():
        place.mkdir(parents=True)
        _write(rows, np.random.default_rng([seed, crc32(epoch.stream.encode()), epoch.epoch]), place, epoch.epoch)
    parts = []
    for path in sorted(place.iterdir()):
        count = pq.read_metadata(path).num_rows
        relative = str(path.relative_to(home.root))
        parts.append(Segment(relative, count, path.stat().st_size, checksum(path)))
    output = replace(epoch.output, segments=tuple(parts), bytes=sum(part.bytes for part in parts))
    return replace(epoch, output=output)


def _write(rows: pa.Table, random: np.random.Generator, place: Path, epoch: int) -> None:
    rows = rows.take(pa.array(random.permutation(rows.num_rows)))
    cuts = sorted(int(cut) for cut in random.integers(0, rows.num_rows + 1, FILES - 1))
    for start, end in zip([0, *cuts], [*cuts, rows.num_rows], strict=True):
        if end > start:
            index = len(list(place.iterdir()))
            pq.write_table(rows.slice(start, end - start), place / segment_name(epoch, index), write_page_checksum=True)
