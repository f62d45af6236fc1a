"""Small homes with real epochs, made by the real workers in this process, and put back as they were after damage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from rekindle.home import Home, create_or_open, open_home
from rekindle.keeper import Keeper, open_keeper
from rekindle.keeper.ledger import Ledger
from rekindle.load import fingerprint, load_pipeline
from rekindle.node.bench import Bench, bench_on
from rekindle.verify.audit import Audit, Wish
from rekindle.verify.code import Code
from rekindle.verify.findings import Report
from tests.node.test_workers import Node

PIPELINES = Path(__file__).parent / "pipelines"
CORES = 2


class Specimen:
    """A home that was run until all its input was taken. ``fresh`` puts it back as it was then."""

    def __init__(self, file: Path, root: Path, spark: SparkSession, rows: int) -> None:
        self.file, self.root, self.spark = file, root, spark
        self._kept = root.with_name(f"{root.name}-kept")
        pipeline = load_pipeline(file)
        home = create_or_open(root, pipeline.name, None)
        keeper = open_keeper(None, home=home)
        try:
            keeper.record_file(str(file), fingerprint(file, pipeline))
            node = Node(pipeline, home, keeper, spark, root.with_name(f"{root.name}-empty"))
            fragments = {f.name: f for f in node.context.analysis.fragments}
            layered = [f.name for f in fragments.values() if f.stateful and f.recovery.layers is not None]

            def done() -> bool:
                heads = keeper.heads()
                for source in pipeline.sources:
                    if sum(e.output.rows for e in keeper.epochs(source, after=0)) < rows:
                        return False
                for name, fragment in fragments.items():
                    claim = keeper.last_claim(name)
                    if claim is None or name not in heads or heads[name].epoch < claim.epoch:
                        return False
                    if any(claim.spans[i].through < heads[i].epoch for i in fragment.inputs):
                        return False
                sinks = all(keeper.delivered(s.name) == keeper.head(s.stream) for s in pipeline.sinks.values())
                return sinks and all(keeper.safe_point(name) is not None for name in layered)

            node.run_until(done)
            keeper.leave(node.context.incarnation)
        finally:
            keeper.close()
        shutil.copytree(root, self._kept, symlinks=True)

    def fresh(self) -> Home:
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root, symlinks=True)
        return open_home(self.root)

    @contextmanager
    def keeper(self) -> Iterator[Keeper]:
        keeper = open_keeper(None, home=open_home(self.root), read_only=True)
        try:
            yield keeper
        finally:
            keeper.close()

    def audit(self, wish: Wish | None = None, *, recompute: bool = True, file: Path | None = None) -> Report:
        code = self.code(file) if recompute else None
        with self.keeper() as keeper:
            return audit(open_home(self.root), keeper, wish or Wish(), code)

    def code(self, file: Path | None = None) -> Code:
        return code(file or self.file, open_home(self.root), self.spark)


def audit(home: Home, keeper: Keeper, wish: Wish, code: Code | None) -> Report:
    return Audit(home, keeper, wish, code, lambda what, done, total: None).run()


def code(file: Path, home: Home, spark: SparkSession) -> Code:
    """A pipeline file with benches on the session that all tests share."""
    pipeline = load_pipeline(file)

    @contextmanager
    def bench(ledger: Ledger, scratch: Path) -> Iterator[Bench]:
        yield bench_on(spark, home, pipeline, ledger.streams, CORES, scratch)

    return Code(file, pipeline, bench, "the file is what ran last")
