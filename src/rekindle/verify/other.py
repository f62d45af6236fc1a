"""The other process of a determinism check: it computes what it is asked to, with a hash seed of its own.

It reads one JSON object a line from stdin and answers each on stdout; what user code prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from rekindle.errors import RekindleError
from rekindle.home import Home, open_home
from rekindle.keeper import Keeper, open_keeper
from rekindle.load import load_pipeline
from rekindle.node.bench import Bench, open_bench
from rekindle.node.claims import Work
from rekindle.node.variants import Computed, Variant, compute, up_to
from rekindle.plan import Fragment
from rekindle.verify.reach import reach_of

PATIENCE_S = 5.0


class Other:
    """The parent's side. Starts the process at once and waits for it only when it is asked something."""

    def __init__(self, file: Path, home: Home, keeper_url: str | None, cores: int, seed: int, scratch: Path) -> None:
        scratch.mkdir(parents=True)
        self._log = scratch / "log"
        environment = {**os.environ, "PYTHONHASHSEED": str(1 + seed % (2**32 - 1))}
        if keeper_url is not None:
            environment["REKINDLE_KEEPER"] = keeper_url
        command = [sys.executable, "-m", "rekindle.verify.other", str(file), str(home.root), str(cores), str(scratch)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
            )

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Its input ends, and so does it."""
        try:
            self._process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def compute(self, fragment: str, operator: str, epochs: Sequence[int], variant: Variant, keep: Path) -> Computed:
        """As ``node.variants.compute``, in the other process."""
        ask = {"fragment": fragment, "operator": operator, "epochs": list(epochs), "keep": str(keep)}
        into, out = _both(self._process)
        try:
            into.write(json.dumps({**ask, **asdict(variant)}) + "\n")
            into.flush()
            answer = out.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            tail = self._log.read_text(errors="replace").splitlines()[-20:]
            raise RekindleError(
                "the other process of the determinism check ended",
                detail="\n".join(tail),
                hint="its last words are above; check free memory, and try again",
            )
        found = json.loads(answer)
        digests = {int(epoch): digest for epoch, digest in found["digests"].items()}
        files = {int(epoch): tuple(paths) for epoch, paths in found["files"].items()}
        return Computed(found["schema"], digests, files, found["error"])


def _both(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise TypeError("the other process was started without pipes")
    return process.stdin, process.stdout


def works_of(keeper: Keeper, fragment: str, epochs: Sequence[int]) -> list[Work]:
    """The claims of these epochs, which follow on each other, and what they take in. Raises RekindleError if they were
    trimmed."""
    if not epochs:
        return []
    reach = reach_of(keeper.ledger(), fragment, range(epochs[0], epochs[-1] + 1), stateful=False)
    steps = [step for stretch in reach.stretches for step in stretch.steps]
    if [step.claim.epoch for step in steps] != list(epochs):
        raise RekindleError(
            f"epochs {epochs[0]} to {epochs[-1]} of {fragment!r} were trimmed while they were checked",
            detail=reach.why,
            hint="check again, with fewer epochs: --last",
        )
    return [Work(step.claim, step.inputs) for step in steps]


def main(arguments: Sequence[str]) -> None:
    file, root, cores, scratch = arguments
    with _answers() as answers:
        home = open_home(Path(root))
        url = None if home.keeper_url == "sqlite" else os.environ.get("REKINDLE_KEEPER", home.keeper_url)
        keeper = open_keeper(url, home=home, clock=time.time, patience_s=PATIENCE_S, read_only=True)
        try:
            pipeline = load_pipeline(Path(file))
            with open_bench(home, pipeline, keeper.streams(), int(cores), Path(scratch)) as bench:
                for line in sys.stdin:
                    answers.write(json.dumps(asdict(_answer(bench, keeper, json.loads(line)))) + "\n")
                    answers.flush()
        finally:
            keeper.close()


def _answer(bench: Bench, keeper: Keeper, ask: Mapping[str, Any]) -> Computed:
    fragment = next(f for f in bench.analysis.fragments if f.name == ask["fragment"])
    variant = Variant(ask["partitions"], ask["shuffle"])
    return computed(bench, keeper, fragment, ask["operator"], ask["epochs"], variant, Path(ask["keep"]))


def computed(
    bench: Bench,
    keeper: Keeper,
    fragment: Fragment,
    operator: str,
    epochs: Sequence[int],
    variant: Variant,
    keep: Path,
) -> Computed:
    """Compute a fragment up to ``operator``, from the records as they are now."""
    try:
        works = works_of(keeper, fragment.name, epochs)
    except RekindleError as error:
        return Computed("", {}, {}, str(error))
    return compute(bench, up_to(fragment, operator, bench.analysis.traits), works, variant, keep)


@contextmanager
def _answers() -> Iterator[IO[str]]:
    """The real stdout; whoever prints from now on prints to stderr, the JVM too."""
    kept = os.dup(1)
    os.dup2(2, 1)
    with open(kept, "w") as answers:
        yield answers


if __name__ == "__main__":
    main(sys.argv[1:])
