"""Loads a pipeline file: by its path, with its folder importable, and with errors about the user's own lines."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import traceback
from dataclasses import fields
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from rekindle.errors import DeclarationError, RekindleError
from rekindle.pipeline import Pipeline

_NO_SPARK_YET = "SESSION_OR_CONTEXT_NOT_EXISTS"


def load_pipeline(file: Path) -> Pipeline:
    """Run a pipeline file and return the one Pipeline that it makes at module level.

    The file's folder goes to the front of ``sys.path`` and of PYTHONPATH, so that modules beside the file
    can be imported, also by Spark's Python workers. Raises DeclarationError for all that is wrong with it.
    """
    file = file.absolute()
    code = _compile(file)
    _make_importable(file.parent)
    module = ModuleType(f"rekindle_pipeline_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses and the like look their module up
    try:
        exec(code, module.__dict__)
    except DeclarationError as error:
        _add_place(error, file)
        raise
    except RekindleError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(error, file) from error
    _pickle_by_value(module)
    return _the_pipeline(module, file)


def fingerprint(file: Path, pipeline: Pipeline, *, cores: int | None = None) -> str:
    """What nodes of this pipeline run, in one word: it changes with the file, with the modules beside it that
    loading it imported, with the settings, and with the versions of Python, Spark and Rekindle.
    """
    folder = file.absolute().parent
    digest = hashlib.sha256()
    for path in sorted({file.absolute(), *_imported_from(folder)}):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    versions = [platform.python_version(), _version("pyspark"), _version("rekindle")]
    settings = {field.name: getattr(pipeline.settings, field.name) for field in fields(pipeline.settings)}
    settings |= {"spark": sorted(pipeline.settings.spark.items()), "cores": cores}
    digest.update(repr((versions, sorted(settings.items()))).encode())
    return digest.hexdigest()[:16]


def _compile(file: Path) -> CodeType:
    try:
        source = file.read_bytes()
    except FileNotFoundError:
        raise DeclarationError(
            f"there is no pipeline file {file.name!r}", detail=str(file), hint="give the path of a Python file"
        ) from None
    except OSError as error:
        raise DeclarationError(f"the pipeline file cannot be read: {error.strerror}", detail=str(file)) from error
    try:
        return compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        line = (error.text or "").rstrip()
        column = max((error.offset or 1) - 1, 0)
        shown = f"\n    {line}\n    {' ' * column}^" if line else ""
        raise DeclarationError(
            f"the pipeline file is not Python: {error.msg}", detail=f"{file}:{error.lineno or 1}{shown}"
        ) from None
    except ValueError as error:
        raise DeclarationError(f"the pipeline file is not Python: {error}", detail=str(file)) from None


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *paths])


def _add_place(error: DeclarationError, file: Path) -> None:
    """Say which line of the user's brought it about, unless it does: sources, sinks and settings do not know."""
    frames = _user_frames(error, file)
    if frames and not any(frame.filename in error.detail for frame in frames):
        where = f"{frames[-1].filename}:{frames[-1].lineno}"
        error.detail = f"{where}: {error.detail}" if error.detail else where


def _raised(error: BaseException, file: Path) -> DeclarationError:
    """The user's error, with the lines of it that are in the user's folder."""
    frames = _user_frames(error, file)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    lines += traceback.format_exception_only(type(error), error)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(file)
    hint = ""
    if _wanted_spark(error):
        hint = "there is no Spark while the file is loaded: move this expression into the function that uses it"
    elif isinstance(error, ModuleNotFoundError):
        hint = f"install {error.name!r} beside rekindle, or put it into the folder of the pipeline file"
    elif isinstance(error, SystemExit):
        hint = "a pipeline file declares and returns; run it with: rekindle run FILE"
    return DeclarationError(
        f"the pipeline file raised {type(error).__name__} at {where}", detail="".join(lines).rstrip(), hint=hint
    )


def _wanted_spark(error: BaseException) -> bool:
    """Whether pyspark refused an expression because no session is there. ``F.col`` fails by a bare assertion."""
    condition = getattr(error, "getCondition", None)
    if condition is not None:
        return bool(condition() == _NO_SPARK_YET)
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__", "") if frame is not None else ""
    return isinstance(error, AssertionError) and module.startswith("pyspark.")


def _user_part(error: BaseException, file: Path) -> TracebackType | None:
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != str(file):
        tb = tb.tb_next
    return tb


def _user_frames(error: BaseException, file: Path) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(_user_part(error, file)) if _is_theirs(frame.filename, file)]


def _is_theirs(name: str, file: Path) -> bool:
    return Path(name).is_relative_to(file.parent) and "site-packages" not in Path(name).parts


def _pickle_by_value(module: ModuleType) -> None:
    """Functions of the file travel to Spark's Python workers whole: the workers have no such module."""
    if "pyspark" in sys.modules:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _the_pipeline(module: ModuleType, file: Path) -> Pipeline:
    found: dict[int, tuple[str, Pipeline]] = {}
    for name, value in vars(module).items():
        if isinstance(value, Pipeline):
            found.setdefault(id(value), (name, value))
    if not found:
        raise DeclarationError(
            "the pipeline file declares no pipeline",
            detail=str(file),
            hint="add one at module level: pipeline = rk.Pipeline('words')",
        )
    if len(found) > 1:
        listed = [f"{name} = Pipeline({pipeline.name!r}) at {pipeline.place}" for name, pipeline in found.values()]
        raise DeclarationError(
            f"the pipeline file declares {len(found)} pipelines",
            detail="\n".join(listed),
            hint="a file holds one pipeline: move the others to files of their own",
        )
    return next(iter(found.values()))[1]


def _imported_from(folder: Path) -> set[Path]:
    """The source files in a folder that are loaded as modules."""
    found = set()
    for module_name, module in list(sys.modules.items()):
        name = getattr(module, "__file__", None)
        ours = module_name == "__main__" or module_name.partition(".")[0] == "rekindle"
        if name and not ours and name.endswith(".py") and _is_theirs(name, folder / "_") and Path(name).is_file():
            found.add(Path(name))
    return found


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
