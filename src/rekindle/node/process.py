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
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import psutil
from py4j.java_gateway import JVMView
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rekindle.clock import wall
from rekindle.errors import DeclarationError, Fenced, KeeperUnavailable, RekindleError
from rekindle.guarantees import guarantees
from rekindle.home import Home, open_home
from rekindle.keeper import open_keeper
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, Incarnation, Member, StreamRecord
from rekindle.load import load_pipeline
from rekindle.node.courtesy import Courtesy
from rekindle.node.deliver import Deliver
from rekindle.node.executors import watch_executors
from rekindle.node.ingest import REJECTED, Ingest, SparkIngest
from rekindle.node.ownership import Ownership
from rekindle.node.prescribed import Prescribed
from rekindle.node.session import start_session
from rekindle.node.stateful import Stateful
from rekindle.node.stateless import Stateless
from rekindle.node.steps import Steps
from rekindle.node.traits import Analysis, analyse, as_nullable
from rekindle.node.trim import SUBJECT as TRIMMING
from rekindle.node.trim import Trim
from rekindle.node.worker import COMPUTING, STANDBY, Context, Worker, first_line
from rekindle.pipeline import Pipeline, Place, SourceDeclaration
from rekindle.plan import Fragment, check
from rekindle.recovery.placement import hosts, in_pool, slot_of
from rekindle.sources.spark import Spark
from rekindle.streams.writer import sweep

log = logging.getLogger("rekindle.node")
PATIENCE_S = 24 * 3600.0
POOL_WAIT_S = 1.0


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
        self._node: str = options.node
        self._stopping = threading.Event()
        self._left = threading.Event()
        self._beats = 0
        self._phase = "starting"
        self._jvm_pid = 0
        self._jvm: JVMView | None = None
        self._workers: list[Worker] = []
        self._courtesy = Courtesy()

    def run(self) -> int:
        options = self._options
        signal.signal(signal.SIGTERM, lambda *_: self._stopping.set())
        signal.signal(signal.SIGINT, lambda *_: self._stopping.set())
        home = open_home(options.home)
        keeper = open_keeper(os.environ.get("REKINDLE_KEEPER"), home=home, clock=wall, patience_s=PATIENCE_S)
        keeper.present(
            self._incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_started=_start_ticks(),
        )
        pipeline = load_pipeline(options.file)
        if in_pool(options.node) or is_spared(pipeline, options.node, keeper.members()):
            self._courtesy.yield_to_others()
        check(pipeline)
        beat = (keeper, pipeline.settings.heartbeat_s)
        heart = threading.Thread(target=self._beat, args=beat, name="heartbeat", daemon=True)
        heart.start()
        spark, analysis = self._prepare(home, pipeline)
        context = self._context(home, keeper, pipeline, spark, analysis)
        record_streams(keeper, pipeline, analysis)
        watch_executors(
            spark,
            self._stopping,
            lambda executor: keeper.event(
                "executor_lost", self._node, executor=executor, incarnation=self._incarnation
            ),
        )
        node = wait_in_pool(context, self._say) if in_pool(options.node) else options.node
        if node is not None:
            self._node = node
            self._host(context, node)
        self._stopping.wait()
        self._phase = "draining"
        context.ownership.nudge()
        for worker in self._workers:
            while not worker.join(1.0):
                log.info("waiting for %s to finish epoch %s", worker.subject, worker.epoch)
        self._left.set()
        heart.join()
        keeper.leave(self._incarnation)
        spark.stop()
        return 0

    def _host(self, context: Context, node: str) -> None:
        """Start the workers of a node."""
        self._phase = "looking"
        clean_up(context, node)
        self._workers = workers_of(context, node)
        context.ownership.start(node, {worker.subject: worker.owned for worker in self._workers})
        for worker in self._workers:
            worker.start()

    def _say(self, phase: str) -> None:
        self._phase = phase

    def _prepare(self, home: Home, pipeline: Pipeline) -> tuple[SparkSession, Analysis]:
        options = self._options
        scratch = home.work / ".scratch" / f"{options.node}-{self._incarnation}"
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
            clock=wall,
            monotonic=time.monotonic,
            die=_die,
            jvm_alive=self._jvm_alive,
            ownership=Ownership(keeper, self._incarnation, self._stopping, _die, self._courtesy.take_part),
            stopping=self._stopping,
            prescribed=Prescribed.from_environment(),
        )

    def _beat(self, keeper: Keeper, every_s: float) -> None:
        while not self._left.wait(every_s if self._beats else 0):
            if not self._jvm_answers():
                continue
            try:
                failed = [w.subject for w in self._workers if w.failed]
                if self._phase == "looking" and all(w.settled for w in self._workers):
                    self._phase = "ready"
                if self._phase == "ready" and all(w.failed or w.role in (STANDBY, COMPUTING) for w in self._workers):
                    self._courtesy.take_part()
                replicas = {
                    w.subject: {"role": w.role, "epoch": w.position, "of": w.of}
                    for w in self._workers
                    if w.subject != TRIMMING
                }
                report = {
                    "node": self._node,
                    "phase": self._phase,
                    "jvm_pid": self._jvm_pid,
                    "failed": failed,
                    "replicas": replicas,
                }
                self._beats += 1
                if keeper.beat(self._incarnation, report) == "drain":
                    self._stopping.set()
            except Fenced as error:
                _die(error)
            except KeeperUnavailable as error:
                log.warning("no heartbeat: %s", error.primary)

    def _jvm_answers(self) -> bool:
        """Whether the JVM, once there is one, does as little as tell the time. While it hangs this does not return, so
        the heart stands still and the lease runs out: a node is no more alive than its JVM."""
        if self._jvm is None:
            return True
        try:
            self._jvm.System.nanoTime()
        except (Py4JError, OSError) as error:  # it is gone, or this connection to it is
            log.warning("no heartbeat, the JVM does not answer: %s", error)
            return False
        return True

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
        self._jvm = spark.sparkContext._jvm

        def watch() -> None:
            code = process.wait()
            if self._phase != "draining":
                log.error("the JVM ended (%s)", code)
                os._exit(1)

        threading.Thread(target=watch, name="jvm", daemon=True).start()


def source_schemas(pipeline: Pipeline, spark: SparkSession) -> dict[str, StructType]:
    """The schema of every source's stream, and of its dead letters. Raises DeclarationError for a source that does not
    tell it: another try would bring the same."""
    schemas = {}
    for name, declaration in pipeline.sources.items():
        try:
            schemas[name] = as_nullable(declaration.source.schema(spark))
        except Py4JNetworkError:
            raise  # it is the JVM that is gone
        except Exception as error:
            raise _refused(declaration, error) from error
        if declaration.source.has_rejects:
            schemas[name + REJECTED_SUFFIX] = REJECTED
    return schemas


def _refused(declaration: SourceDeclaration, error: Exception) -> DeclarationError:
    name, source = declaration.name, declaration.source
    if isinstance(error, RekindleError):
        where = f"{declaration.place}: {error.detail}" if error.detail else str(declaration.place)
        return DeclarationError(f"source {name!r}: {error.primary}", detail=where, hint=error.hint)
    hide = source.without_secrets if isinstance(source, Spark) else str
    frames = "".join(traceback.format_tb(error.__traceback__)[1:])
    return DeclarationError(
        f"source {name!r} does not tell its schema: {hide(first_line(error))}",
        detail=f"{declaration.place}\n{hide(frames)}".rstrip(),
        hint=f"correct the declaration, or what it names: {source.describe()}",
    )


def workers_of(context: Context, node: str) -> list[Worker]:
    """One worker for each source, fragment and sink that ``node`` hosts."""
    pipeline = context.pipeline
    workers: list[Worker] = []
    for source in pipeline.sources.values():
        if hosts(node, source.node):
            workers.append(
                SparkIngest(context, source) if isinstance(source.source, Spark) else Ingest(context, source)
            )
    workers += [computing(context, f) for f in context.analysis.fragments if hosts(node, f.node, f)]
    workers += [Deliver(context, sink) for sink in pipeline.sinks.values() if hosts(node, sink.node)]
    return [*workers, Trim(context)]


def computing(context: Context, fragment: Fragment) -> Worker:
    return Stateful(context, fragment) if fragment.stateful else Stateless(context, fragment)


def wait_in_pool(context: Context, say: Callable[[str], None]) -> str | None:
    """Be warm for whatever node may die: rehearse every fragment, until the supervisor makes this one of them.
    Returns its name; None when the process shall end before that."""

    def promoted() -> str | None:
        here = next((m for m in context.keeper.members() if m.incarnation == context.incarnation), None)
        if here is None:
            raise Fenced("this warm node was fenced", hint="this process was replaced and must end")
        return None if in_pool(here.node) else here.node

    cold = [computing(context, fragment) for fragment in context.analysis.fragments]
    seen = 0
    while not context.stopping.is_set():
        node = promoted()
        if node is not None:
            return node
        cold = [w for w in cold if not w.rehearse(lambda: context.stopping.is_set() or promoted() is not None)]
        say("ready")
        seen = context.keeper.wait(seen, POOL_WAIT_S)
    return None


def clean_up(context: Context, node: str) -> None:
    """Remove what incarnations that are over left: their scratch, and what they never published on node's streams."""
    over = frozenset(m.incarnation for m in context.keeper.members(live=False) if m.state in ("left", "fenced"))
    place, _ = slot_of(node)
    names = {d.name for d in context.pipeline.sources.values() if d.node == place}
    names |= {f.name for f in context.analysis.fragments if f.node == place}
    for stream, record in context.keeper.streams().items():
        if record.fragment in names:
            head = context.keeper.head(stream)
            newest = context.keeper.epoch(stream, head) if head else None
            kept = frozenset(str(Path(s.path).parent) for s in newest.output.segments) if newest else frozenset()
            sweep(context.home, stream, head, kept, over=over)
    for scratch in (context.home.work / ".scratch").glob("*-*"):
        number = scratch.name.rpartition("-")[2]
        if number.isdigit() and int(number) in over:
            shutil.rmtree(scratch, ignore_errors=True)


def record_streams(keeper: Keeper, pipeline: Pipeline, analysis: Analysis) -> None:
    """Put every published stream on record. Raises DeclarationError if one has another schema than before."""
    published: dict[str, tuple[str, tuple[str, ...], Place]] = {}
    for name, source in pipeline.sources.items():
        published[name] = (name, (), source.place)
        if source.source.has_rejects:
            published[name + REJECTED_SUFFIX] = (name, (), source.place)
    for fragment in analysis.fragments:
        published[fragment.name] = (fragment.name, fragment.inputs, fragment.operators[-1].place)
    given = guarantees(pipeline)
    for stream, (owner, inputs, place) in published.items():
        schema = analysis.schemas[stream]
        recorded = keeper.record_stream(StreamRecord(stream, owner, schema.json(), inputs, given[stream]))
        before = StructType.fromJson(json.loads(recorded.schema))
        if before != schema:
            raise DeclarationError(
                f"stream {stream!r} has another schema than the one it was published with",
                detail=f"{place}\nbefore: {before.simpleString()}\nnow:    {schema.simpleString()}",
                hint="an epoch never changes: give the new stream a new name, or start a new home",
            )


def is_spared(pipeline: Pipeline, node: str, members: Sequence[Member]) -> bool:
    """Whether all that a node will host is in the hands of another one that is at work already."""
    place, _ = slot_of(node)
    redundant = all(stream.recovery.replicas > 1 for stream in pipeline.streams.values() if stream.node == place)
    others = [m for m in members if m.node != node and slot_of(m.node)[0] == place]
    return redundant and any(m.report.get("phase") == "ready" for m in others)


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
