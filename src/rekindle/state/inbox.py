"""The inbox: the folder that feeds one replica of a stateful fragment, one claim at a time.

    inbox/<epoch>/<input>/<input epoch>-<segment>.parquet

Spark's own Parquet file source watches ``inbox/*/<input>``. The segments of a claim are linked into a hidden
folder, and one rename shows them all, for all inputs at once. That is done before the query starts, and then
only from within its own thread at the end of a batch, so no source can be asked while a claim is half shown:
Spark's batches are exactly the claims. An input that contributes nothing shows an empty file, so every
source moves by one for each epoch, and a batch whose sources disagree is found.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.home import Home
from rekindle.keeper.records import Epoch, EpochNumber
from rekindle.streams.segments import verify


class Inbox:
    def __init__(self, root: Path, schemas: Mapping[str, pa.Schema], clock: Callable[[], float]) -> None:
        self._shown = root / "inbox"
        self._hidden = root / "hidden"
        self._schemas = schemas
        self._clock = clock
        self._shown_at_s = 0.0
        self._shown.mkdir(parents=True)
        self._hidden.mkdir()
        for name, schema in schemas.items():
            pq.write_table(schema.empty_table(), self._hidden / f"{name}.empty")

    def glob(self, name: str) -> Path:
        """What the source of input ``name`` watches."""
        return self._shown / "*" / name

    def show(self, epoch: EpochNumber, home: Home, inputs: Mapping[str, Sequence[Epoch]]) -> None:
        """Show the segments of a claim, all at once. Raises SegmentDamaged for one that is not what was published."""
        hidden = self._hidden / f"{epoch:012d}"
        shown_at_s = self._shown_at_s = max(self._clock(), self._shown_at_s)  # Spark ignores files that look old
        for name in self._schemas:
            folder = hidden / name
            folder.mkdir(parents=True)
            for record in inputs.get(name, ()):
                for segment in record.output.segments:
                    path = verify(home, segment, stream=record.stream, epoch=record.epoch)
                    os.link(path, folder / path.name)
                    os.utime(folder / path.name, (shown_at_s, shown_at_s))
            if not any(folder.iterdir()):
                empty = folder / "empty.parquet"
                os.link(self._hidden / f"{name}.empty", empty)
                os.utime(empty, (shown_at_s, shown_at_s))
        os.rename(hidden, self._shown / hidden.name)

    def retire(self, before: EpochNumber) -> None:
        """Forget epochs that Spark has committed."""
        for folder in self._shown.iterdir():
            if int(folder.name) < before:
                shutil.rmtree(folder)
