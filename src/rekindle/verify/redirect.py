"""A user's pipeline, bound to scratch folders: the same operators and policies, other sources and sinks.

What changes: file sources read a copy of their files; a source that only Spark can read again is replaced by what it
brought in the undisturbed run; generators end after ``rows_max`` rows; sinks are recorded (see ``recorder``); nothing
is trimmed, so that every epoch can be compared. Everything else is as the user declared it.
"""

from __future__ import annotations

import copy
import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rekindle.errors import DeclarationError
from rekindle.keeper.records import Position, Span
from rekindle.load import load_pipeline
from rekindle.pipeline import Pipeline, SourceDeclaration
from rekindle.sources.base import Batch, Reader, Source
from rekindle.sources.files import Files
from rekindle.sources.rate import Rate
from rekindle.sources.spark import Spark
from rekindle.verify.recorder import Recorder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRAPPER = '''"""Made by rekindle verify: {file}, bound to scratch folders."""

from pathlib import Path

from rekindle.verify.redirect import Binding, bind

pipeline = bind(Binding.read(Path(__file__).with_suffix(".json")))
'''


@dataclass(frozen=True, slots=True)
class Binding:
    """To what a run's pipeline is bound. ``inputs`` are folders of file sources; ``brought`` is what a source brought
    before: its schema, and the segments of each epoch."""

    file: str
    sinks: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    brought: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rows_max: int | None = None
    real_sinks: bool = False

    @staticmethod
    def read(path: Path) -> Binding:
        return Binding(**json.loads(path.read_text()))

    def write(self, folder: Path) -> Path:
        """Write the pipeline file that nodes load; returns its path."""
        (folder / "bound.json").write_text(json.dumps(asdict(self)))
        path = folder / "bound.py"
        path.write_text(WRAPPER.format(file=Path(self.file).name))
        return path


def bind(binding: Binding) -> Pipeline:
    """Load the user's file, and bind its sources and sinks. Raises DeclarationError for what is wrong with the file."""
    pipeline = load_pipeline(Path(binding.file))
    for name, source in pipeline.sources.items():
        pipeline.sources[name] = replace(source, source=_source(source, binding), retain_s=math.inf)
    for name, stream in pipeline.streams.items():
        pipeline.streams[name] = replace(stream, retain_s=math.inf)
    for name, sink in pipeline.sinks.items():
        recorder = Recorder(sink.sink, Path(binding.sinks) / name, real=binding.real_sinks)
        pipeline.sinks[name] = replace(sink, sink=recorder)
    pipeline.settings = replace(pipeline.settings, retain_s=math.inf)
    return pipeline


def _source(declaration: SourceDeclaration, binding: Binding) -> Source:
    name, source = declaration.name, declaration.source
    if name in binding.brought:
        return Brought(binding.brought[name], source)
    if isinstance(source, Files) and name in binding.inputs:
        bound = copy.copy(source)
        bound.path = Path(binding.inputs[name])
        return bound
    if isinstance(source, Rate) and binding.rows_max is not None:
        return source.limited(binding.rows_max)
    return source


class Brought(Source):
    """What another source brought in an earlier run, epoch by epoch. The position is the number of the epoch."""

    def __init__(self, brought: Mapping[str, Any], original: Source) -> None:
        self._schema: str = brought["schema"]
        self._epochs: list[list[str]] = brought["epochs"]
        self._original = original

    def schema(self, spark: SparkSession) -> Any:
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._schema))

    def open(self, history: Iterable[Position]) -> BroughtReader:
        return BroughtReader(self._epochs)

    @property
    def needs_history(self) -> bool:
        return False

    @property
    def has_rejects(self) -> bool:
        return self._original.has_rejects

    @property
    def guarantee(self) -> str:
        return self._original.guarantee

    def describe(self) -> str:
        return f"brought before by {self._original.describe()}"


class BroughtReader(Reader):
    def __init__(self, epochs: list[list[str]]) -> None:
        self._epochs = epochs

    def newest(self, after: Position | None, rows_max: int) -> Position | None:
        number = (after or 0) + 1
        return number if number <= len(self._epochs) else None

    def read(self, span: Span, batch: Batch) -> None:
        for number in range((span.after or 0) + 1, span.through + 1):
            for path in self._epochs[number - 1]:
                batch.add_parquet(Path(path))


def has_end(source: Source, binding: Binding) -> bool:
    """Whether a source comes to its end by itself."""
    if isinstance(source, Rate):
        return source.limit is not None or binding.rows_max is not None
    return isinstance(source, Files)


def is_read_once(source: Source) -> bool:
    """Whether nobody but Spark knows what the source brought, so that another run cannot read the same again."""
    return isinstance(source, Spark)


def copy_input(pipeline: Pipeline, folder: Path, given: Path | None) -> dict[str, str]:
    """Copy the files that the pipeline's file sources would read now; returns their new folders by source.
    With ``given``, those in the folder of the source's name in it. Raises DeclarationError if there are none to read.
    """
    inputs = {}
    for name, declaration in pipeline.sources.items():
        source = declaration.source
        if not isinstance(source, Files):
            continue
        origin = source.path if given is None else given / name
        if not origin.is_dir():
            raise DeclarationError(
                f"there is no input for source {name!r}",
                detail=f"{declaration.place}: {origin.absolute()} is not a folder",
                hint=f"put the files to verify with there, or give --input DIR with a folder {name} in it",
            )
        target = folder / name
        target.mkdir(parents=True)
        for place, folders, files in os.walk(origin):
            folders.sort()
            for file in sorted(files):
                path = Path(place) / file
                to = target / path.relative_to(origin)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)  # with its times, which a claim records
        inputs[name] = str(target)
    return inputs
