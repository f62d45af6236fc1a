"""A node: one process with one Spark driver, the workers of its fragments, and a heartbeat.

Exit codes: 0 drained, 2 the pipeline file is wrong, 6 fenced, 1 anything else.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rekindle.errors import DeclarationError, Fenced, KeeperUnavailable, RekindleError
from rekindle.home import Home, open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, Incarnation, StreamRecord
from rekindle.load import load_pipeline
from rekindle.node.deliver import Deliver
from rekindle.node.ingest import REJECTED, Ingest, SparkIngest
from rekindle.node.session import start_session
from rekindle.node.stateful import Stateful
from rekindle.node.stateless import Stateless
from rekindle.node.steps import Steps
from rekindle.node.traits import Analysis, analyse, as_nullable
from rekindle.node.worker import Context, Worker
from rekindle.pipeline import Pipeline, Place
from rekindle.plan import check
from rekindle.sources.spark import Spark
from rekindle.streams.writer import sweep

log = logging.getLogger("rekindle.node")
PATIENCE_S = 24 * 3600.0


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(threadName)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    try:
        return Node(options).run()
    except RekindleError as error:
        log.error("%s", error)
        return error.exit_code


class Node:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._incarnation = Incarnation(options.incarnation)
        self._stopping = threading.Event()
        self._left = threading.Event()
        self._beats = 0
        self._phase = "starting"
        self._jvm_pid = 0
        self._workers: list[Worker] = []

    def run(self) -> int:
        options = self._options
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        signal.signal(signal.SIGINT, lambda *_: self._stopping.set())
        home = open_home(options.home)
        keeper = open_keeper(os.environ.get("REKINDLE_KEEPER"), home=home, clock=time.time, patience_s=PATIENCE_S)
        keeper.present(
            self._incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_started=_start_ticks(),
        )
        pipeline = load_pipeline(options.file)
        check(pipeline)
        beat = (keeper, pipeline.settings.heartbeat_s)
        heart = threading.Thread(target=self._beat, args=beat, name="heartbeat", daemon=True)
        heart.start()
        spark, analysis = self._prepare(home, pipeline)
        context = self._context(home, keeper, pipeline, spark, analysis)
        record_streams(keeper, pipeline, analysis)
        self._sweep(context)
        self._workers = workers_of(context, options.node)
        for worker in self._workers:
            worker.start()
        self._phase = "looking"
        self._stopping.wait()
        self._phase = "draining"
        for worker in self._workers:
            while not worker.join(1.0):
                log.info("waiting for %s to finish epoch %s", worker.subject, worker.epoch)
        self._left.set()
        heart.join()
        keeper.leave(self._incarnation)
        spark.stop()
        return 0

    def _prepare(self, home: Home, pipeline: Pipeline) -> tuple[SparkSession, Analysis]:
        options = self._options
        scratch = home.work / ".scratch" / f"{options.node}-{self._incarnation}"
        for other in scratch.parent.glob(f"{options.node}-*"):
            if int(other.name.rpartition("-")[2]) < self._incarnation:  # fenced by now; a later one is our successor
                shutil.rmtree(other, ignore_errors=True)
        scratch.mkdir(parents=True)
        spark = start_session(options.node, cores=options.cores, conf=pipeline.settings.spark, scratch=scratch)
        self._watch_jvm(spark)
        return spark, analyse(pipeline, spark, source_schemas(pipeline, spark), scratch)

    def _context(
        self, home: Home, keeper: Keeper, pipeline: Pipeline, spark: SparkSession, analysis: Analysis
    ) -> Context:
        steps = Steps.from_environment(os.environ)
        steps.kill_jvm = lambda: os.kill(self._jvm_pid, signal.SIGKILL)
        tracker = spark.sparkContext.statusTracker()
        steps.job_group = lambda: str(spark.sparkContext.getLocalProperty("spark.jobGroup.id"))

        def busy(group: str) -> bool:
            jobs = [job for j in tracker.getJobIdsForGroup(group) if (job := tracker.getJobInfo(j)) is not None]
            stages = {stage for job in jobs if job.status == "RUNNING" for stage in job.stageIds}
            return bool(stages.intersection(tracker.getActiveStageIds()))

        steps.busy = busy
        return Context(
            pipeline=pipeline,
            home=home,
            keeper=keeper,
            incarnation=self._incarnation,
            spark=spark,
            cores=self._options.cores,
            analysis=analysis,
            steps=steps,
            clock=time.time,
            monotonic=time.monotonic,
            die=_die,
            jvm_alive=self._jvm_alive,
            stopping=self._stopping,
        )

    def _sweep(self, context: Context) -> None:
        """Remove what fenced incarnations wrote and never published, of the streams of this node."""
        live = frozenset(member.incarnation for member in context.keeper.members())  # before any head is read
        names = {d.name for d in context.pipeline.sources.values() if d.node == self._options.node}
        names |= {f.name for f in context.analysis.fragments if f.node == self._options.node}
        for stream, record in context.keeper.streams().items():
            if record.fragment in names:
                head = context.keeper.head(stream)
                newest = context.keeper.epoch(stream, head) if head else None
                kept = frozenset(str(Path(s.path).parent) for s in newest.output.segments) if newest else frozenset()
                sweep(context.home, stream, head, self._incarnation, kept, live=live)

    def _beat(self, keeper: Keeper, every_s: float) -> None:
        while not self._left.wait(every_s if self._beats else 0):
            try:
                failed = [w.subject for w in self._workers if w.failed]
                if self._phase == "looking" and all(w.looked or w.failed for w in self._workers):
                    self._phase = "ready"
                report = {"phase": self._phase, "jvm_pid": self._jvm_pid, "failed": failed}
                self._beats += 1
                if keeper.beat(self._incarnation, report) == "drain":
                    self._stopping.set()
            except Fenced as error:
                _die(error)
            except KeeperUnavailable as error:
                log.warning("no heartbeat: %s", error.primary)

    def _jvm_alive(self) -> bool:
        """A JVM that was killed is a corpse until it is buried."""
        try:
            return bool(psutil.Process(self._jvm_pid).status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    def _watch_jvm(self, spark: SparkSession) -> None:
        """A node without its JVM is dead: say so at once, by ending."""
        process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        self._jvm_pid = process.pid

        def watch() -> None:
            code = process.wait()
            if self._phase != "draining":
                log.error("the JVM ended (%s)", code)
                os._exit(1)

        threading.Thread(target=watch, name="jvm", daemon=True).start()


def source_schemas(pipeline: Pipeline, spark: SparkSession) -> dict[str, StructType]:
    """The schema of every source's stream, and of its dead letters."""
    schemas = {}
    for name, declaration in pipeline.sources.items():
        schemas[name] = as_nullable(declaration.source.schema(spark))
        if declaration.source.has_rejects:
            schemas[name + REJECTED_SUFFIX] = REJECTED
    return schemas


def workers_of(context: Context, node: str) -> list[Worker]:
    """One worker for each source, fragment and sink that is placed on ``node``."""
    pipeline = context.pipeline
    workers: list[Worker] = []
    for source in pipeline.sources.values():
        if source.node == node:
            workers.append(
                SparkIngest(context, source) if isinstance(source.source, Spark) else Ingest(context, source)
            )
    for fragment in context.analysis.fragments:
        if fragment.node == node:
            workers.append(Stateful(context, fragment) if fragment.stateful else Stateless(context, fragment))
    workers += [Deliver(context, sink) for sink in pipeline.sinks.values() if sink.node == node]
    return workers


def record_streams(keeper: Keeper, pipeline: Pipeline, analysis: Analysis) -> None:
    """Put every published stream on record. Raises DeclarationError if one has another schema than before."""
    published: dict[str, tuple[str, tuple[str, ...], Place]] = {}
    for name, source in pipeline.sources.items():
        published[name] = (name, (), source.place)
        if source.source.has_rejects:
            published[name + REJECTED_SUFFIX] = (name, (), source.place)
    for fragment in analysis.fragments:
        published[fragment.name] = (fragment.name, fragment.inputs, fragment.operators[-1].place)
    for stream, (owner, inputs, place) in published.items():
        schema = analysis.schemas[stream]
        recorded = keeper.record_stream(StreamRecord(stream, owner, schema.json(), inputs, "precise"))
        before = StructType.fromJson(json.loads(recorded.schema))
        if before != schema:
            raise DeclarationError(
                f"stream {stream!r} has another schema than the one it was published with",
                detail=f"{place}\nbefore: {before.simpleString()}\nnow:    {schema.simpleString()}",
                hint="an epoch never changes: give the new stream a new name, or start a new home",
            )


def _die(error: BaseException) -> NoReturn:
    """End this process at once; the supervisor takes it from here."""
    log.error("this node ends: %s", error)
    logging.shutdown()
    os._exit(error.exit_code if isinstance(error, RekindleError) else 1)


def _start_ticks() -> int:
    """This process's start time in clock ticks since boot: field 22 of its stat file."""
    text = Path("/proc/self/stat").read_text()
    return int(text.rpartition(")")[2].split()[19])


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rekindle.node")
    parser.add_argument("file", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
