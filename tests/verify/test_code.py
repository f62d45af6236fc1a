from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import DeclarationError
from rekindle.home import create_or_open
from rekindle.keeper import open_keeper
from rekindle.load import fingerprint, load_pipeline
from rekindle.verify.code import code_of

FILE = """
import rekindle as rk

pipeline = rk.Pipeline("words")
pipeline.source("lines", rk.sources.Rate(1))
"""


def test_the_file_that_ran_last_is_taken(tmp_path: Path) -> None:
    home = create_or_open(tmp_path / "home", "words", None)
    keeper = open_keeper(None, home=home)
    try:
        with pytest.raises(DeclarationError, match="not on record which pipeline file"):
            code_of(home, keeper, None, 1)
        file = tmp_path / "pipeline.py"
        file.write_text(FILE)
        assert code_of(home, keeper, file, 1).changed.startswith("it is not on record")
        keeper.record_file(str(file), fingerprint(file, load_pipeline(file)))
        assert code_of(home, keeper, None, 1).changed.endswith("is what ran last")
        file.write_text(FILE + "\n# changed\n")
        code = code_of(home, keeper, None, 1)
        assert code.file == file and "is not what ran last" in code.changed
        file.write_text(FILE.replace("words", "other"))
        with pytest.raises(DeclarationError, match="belongs to the pipeline 'words'"):
            code_of(home, keeper, None, 1)
    finally:
        keeper.close()
