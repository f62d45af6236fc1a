from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from rekindle.errors import DeclarationError
from rekindle.keeper.records import Span
from rekindle.load import load_pipeline
from rekindle.sources.files import Files
from rekindle.sources.rate import Rate
from rekindle.verify.recorder import Recorder
from rekindle.verify.redirect import Binding, Brought, BroughtReader, bind, copy_input, has_end, is_read_once
from tests.sources.collect import Collected

FILE = """
import rekindle as rk

pipeline = rk.Pipeline("p", settings=rk.Settings(retain_s=1))
pipeline.source("lines", rk.sources.Files({folder!r}, format="json", schema="id long"))
pipeline.source("ticks", rk.sources.Rate(10, limit=500), retain_s=2)
pipeline.source("kafka", rk.sources.Spark("kafka", {{"subscribe": "t"}}))


@pipeline.stream(retain_s=3)
def all_lines(lines):
    return lines


pipeline.sink("all_lines", rk.sinks.Files("/nowhere/out"))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    inbox = tmp_path / "inbox"
    (inbox / "deep").mkdir(parents=True)
    (inbox / "a.json").write_text('{"id":1}\n')
    (inbox / "deep" / "b.json").write_text('{"id":2}\n')
    os.utime(inbox / "a.json", ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    path = tmp_path / "p.py"
    path.write_text(FILE.format(folder=str(inbox)))
    return path


def test_a_bound_pipeline_writes_nowhere_and_trims_nothing(tmp_path: Path, file: Path) -> None:
    inputs = copy_input(load_pipeline(file), tmp_path / "copy", None)
    brought = {"kafka": {"schema": "{}", "epochs": [["/one.parquet"]]}}
    binding = Binding(str(file), str(tmp_path / "sinks"), inputs, brought, rows_max=100)
    wrapper = binding.write(tmp_path)
    pipeline = load_pipeline(wrapper)
    assert pipeline.name == "p" and pipeline.streams["all_lines"].place.file == str(file)
    lines, ticks = pipeline.sources["lines"].source, pipeline.sources["ticks"].source
    assert isinstance(lines, Files) and lines.path == tmp_path / "copy" / "lines"
    assert "100 rows in all" in ticks.describe()
    assert isinstance(pipeline.sources["kafka"].source, Brought)
    sink = pipeline.sinks["all_lines_sink"].sink
    assert isinstance(sink, Recorder) and sink.guarantee == "precise"
    assert pipeline.settings.retain_s == math.inf
    assert {source.retain_s for source in pipeline.sources.values()} == {math.inf}
    assert {stream.retain_s for stream in pipeline.streams.values()} == {math.inf}


def test_which_sources_come_to_an_end(tmp_path: Path, file: Path) -> None:
    sources = load_pipeline(file).sources
    free, bound = Binding(str(file), ""), Binding(str(file), "", rows_max=5)
    assert {name for name, declaration in sources.items() if has_end(declaration.source, free)} == {"lines", "ticks"}
    assert not has_end(Rate(10), free) and has_end(Rate(10), bound)
    assert {name for name, declaration in sources.items() if is_read_once(declaration.source)} == {"kafka"}


def test_a_limit_that_is_lower_stays(tmp_path: Path, file: Path) -> None:
    pipeline = bind(Binding(str(file), str(tmp_path / "sinks"), rows_max=1000))
    assert "500 rows in all" in pipeline.sources["ticks"].source.describe()


def test_input_is_copied_with_its_times(tmp_path: Path, file: Path) -> None:
    inputs = copy_input(load_pipeline(file), tmp_path / "copy", None)
    assert inputs == {"lines": str(tmp_path / "copy" / "lines")}
    copied = tmp_path / "copy" / "lines" / "a.json"
    assert copied.stat().st_mtime_ns == 1_700_000_000_123_456_789
    assert (tmp_path / "copy" / "lines" / "deep" / "b.json").read_text() == '{"id":2}\n'
    (tmp_path / "inbox" / "a.json").write_text("changed")
    assert copied.read_text() == '{"id":1}\n'


def test_other_input_is_taken_by_the_name_of_the_source(tmp_path: Path, file: Path) -> None:
    (tmp_path / "given" / "lines").mkdir(parents=True)
    (tmp_path / "given" / "lines" / "c.json").write_text("{}")
    copy_input(load_pipeline(file), tmp_path / "copy", tmp_path / "given")
    assert [path.name for path in (tmp_path / "copy" / "lines").iterdir()] == ["c.json"]


def test_input_that_is_not_there_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(DeclarationError) as refused:
        copy_input(load_pipeline(file), tmp_path / "copy", tmp_path / "given")
    assert "no input for source 'lines'" in refused.value.primary and str(file) in refused.value.detail


def test_what_was_brought_is_brought_again_epoch_by_epoch(tmp_path: Path) -> None:
    reader = BroughtReader([["/a.parquet", "/b.parquet"], [], ["/c.parquet"]])
    assert [reader.newest(after, 10) for after in (None, 1, 2, 3)] == [1, 2, 3, None]

    class Batch(Collected):
        def add_parquet(self, file: Path) -> None:
            taken.append(str(file))

    taken: list[str] = []
    reader.read(Span(None, 1), Batch())
    reader.read(Span(1, 3), Batch())
    assert taken == ["/a.parquet", "/b.parquet", "/c.parquet"]
