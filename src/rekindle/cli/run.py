"""``rekindle run``: a pipeline under a supervisor, until it is told to end, and what is said about it."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from rekindle.cli.added import Added
from rekindle.cli.durations import parse_duration
from rekindle.cli.options import DEFAULT_HOME, HomeOption, JsonOption, KeeperOption
from rekindle.cli.progress import Progress, progress_for
from rekindle.cli.report import note, plain, plain_line, say, say_json, without_secrets
from rekindle.errors import DeclarationError, FragmentFailed, KeeperUnavailable, RekindleError
from rekindle.home import Home, HomeLock, create_or_open
from rekindle.java import check_java
from rekindle.keeper import Keeper, open_keeper
from rekindle.load import fingerprint, load_pipeline
from rekindle.pipeline import Pipeline
from rekindle.plan import check
from rekindle.recovery.placement import beside, slots
from rekindle.sinks import Console
from rekindle.supervisor.idle import is_hopeless, is_settled, look
from rekindle.supervisor.supervise import Supervisor

PATIENCE_S = 2.0
LOOK_S = 0.25
COUNT_S = 2.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    file: Annotated[Path, typer.Argument(help="The Python file that declares the pipeline.")],
    home: HomeOption = DEFAULT_HOME,
    keeper: KeeperOption = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="End after this time: 30s, 5m.")] = None,
    until_idle: Annotated[
        str | None, typer.Option("--until-idle", metavar="TIME", help="End when nothing was left to do for this time.")
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Cores of each node; all of them if not given.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline file, and resume where the home's last run ended.

    Ctrl-C drains to an epoch boundary; a second one kills, which is safe too.
    """
    for_s = None if for_ is None else parse_duration(for_, what="--for")
    until_idle_s = None if until_idle is None else parse_duration(until_idle, what="--until-idle")
    raise typer.Exit(run_file(file, home, keeper, for_s, until_idle_s, as_json, cores))


def run_file(
    file: Path,
    home: Path,
    keeper_url: str | None,
    for_s: float | None,
    until_idle_s: float | None,
    as_json: bool,
    cores: int | None,
) -> int:
    """Run a pipeline file to its end; 0, or 3 if a fragment, a sink or a node failed. Raises RekindleError."""
    pipeline = load_pipeline(file)
    check(pipeline)
    check_java()
    place = create_or_open(home, pipeline.name, keeper_url)
    lock = HomeLock(place)
    try:
        if keeper_url is None and place.keeper_url != "sqlite":
            keeper_url = place.keeper_url
        keeper = open_keeper(keeper_url, home=place, clock=time.time, patience_s=PATIENCE_S)
        try:
            command = [sys.executable, "-m", "rekindle.node", str(file.absolute()), "--home", str(place.root)]
            if cores is not None:
                command += ["--cores", str(cores)]
            code = fingerprint(file, pipeline, cores=cores)
            keeper.clear_failures()
            keeper.record_file(str(file.absolute()), fingerprint(file, pipeline))
            supervisor = Supervisor(place, keeper, pipeline, command, code=code, keeper_url=keeper_url)
            one = Run(place, keeper, pipeline, supervisor, monotonic=time.monotonic)
            return one.to_its_end(for_s, until_idle_s, as_json=as_json)
        finally:
            keeper.close()
    finally:
        lock.release()


class Run:
    """One run: it steps the supervisor until there is a reason to end, drains, and sums up."""

    def __init__(
        self,
        home: Home,
        keeper: Keeper,
        pipeline: Pipeline,
        supervisor: Supervisor,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._home = home
        self._keeper = keeper
        self._pipeline = pipeline
        self._supervisor = supervisor
        self._monotonic = monotonic
        self._signals = 0
        self._started_s = monotonic()
        self._looked_s = self._started_s
        self._still_s = self._started_s
        self._moved: object = None
        self._counted_s = self._started_s
        self._added = Added(keeper)

    def to_its_end(self, for_s: float | None, until_idle_s: float | None, *, as_json: bool) -> int:
        """Returns the exit code. Whatever ends the run, its nodes are drained before that. Raises DeclarationError if
        a node says that the pipeline file is wrong, RekindleError if nodes are left, and what else went wrong."""
        failure: Exception | None = None
        why = ""
        killed: list[str] = []
        with self._signals_caught(), progress_for(self._home, self._keeper, as_json=as_json) as progress:
            try:
                progress.show(None)
                if told := printed_where(self._pipeline, self._home):
                    progress.say(told)
                try:
                    why = self._until_over(progress, for_s, until_idle_s)
                except DeclarationError as error:
                    failure = error
                killed = self._drain(progress, patient=why != "interrupted")
            except Exception as error:
                failure = failure or error
                self._drain_unseen(failure)
            finally:
                self._supervisor.close()
            if failure is None:
                progress.show(self._supervisor.keeper_away_since_s, at_once=True)
        if failure is not None:
            raise failure
        return self._sum_up(why, killed, as_json=as_json)

    def _until_over(self, progress: Progress, for_s: float | None, until_idle_s: float | None) -> str:
        while True:
            self._supervisor.step(LOOK_S)
            why = self._why_end(for_s, until_idle_s)
            if why:
                return why
            progress.show(self._supervisor.keeper_away_since_s)

    def _drain(self, progress: Progress, *, patient: bool) -> list[str]:
        before = self._signals if patient else 1
        progress.say("draining to an epoch boundary; Ctrl-C kills at once, which is safe too")
        return self._supervisor.drain(
            progress=lambda nodes: progress.show(self._supervisor.keeper_away_since_s, waiting_for=nodes),
            hurry=lambda: self._signals > before,
        )

    def _drain_unseen(self, failure: Exception) -> None:
        """The run has failed. Its nodes drain all the same, and nothing is shown that could fail again."""
        note(plain_line(without_secrets(f"the run failed, its nodes are drained: {type(failure).__name__}: {failure}")))
        before = self._signals
        try:
            self._supervisor.drain(hurry=lambda: self._signals > before)
        except Exception as error:
            raise RekindleError(
                "the run failed, and its nodes may still run",
                detail=f"{type(failure).__name__}: {failure}; then, to drain them: {type(error).__name__}: {error}",
                hint=f"end them with: rekindle stop --home {self._home.root}",
            ) from failure

    def _why_end(self, for_s: float | None, until_idle_s: float | None) -> str:
        now_s = self._monotonic()
        if self._signals:
            return "interrupted"
        if for_s is not None and now_s - self._started_s >= for_s:
            return "time is over"
        if self._supervisor.nothing_left:
            return "no node is left"
        if now_s - self._looked_s >= LOOK_S and self._supervisor.keeper_away_since_s is None:
            self._looked_s = now_s
            try:
                if now_s - self._counted_s >= COUNT_S:
                    self._counted_s = now_s
                    self._added.count()
                return self._idle_or_hopeless(now_s, until_idle_s)
            except KeeperUnavailable:
                self._still_s = self._monotonic()  # the supervisor's next step says so
        return ""

    def _idle_or_hopeless(self, now_s: float, until_idle_s: float | None) -> str:
        if until_idle_s is None and not self._keeper.failures():
            return ""
        standing = look(self._keeper, self._pipeline)
        given_up = self._supervisor.given_up
        if is_hopeless(standing, self._pipeline, given_up):
            return "every fragment has failed"
        if standing.moved != self._moved or not self._supervisor.all_ready:
            self._moved, self._still_s = standing.moved, now_s
        elif not is_settled(standing, self._pipeline, given_up):
            self._still_s = now_s
        elif until_idle_s is not None and now_s - self._still_s >= until_idle_s:
            return "idle"
        return ""

    @contextmanager
    def _signals_caught(self) -> Iterator[None]:
        def caught(number: int, _frame: FrameType | None) -> None:
            if number != signal.SIGHUP or not self._signals:  # a terminal that closes may say so again
                self._signals += 1
            self._supervisor.wake()

        without_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # nohup
        ending = [number for number in _ENDING if number != signal.SIGHUP or not without_terminal]
        before = {number: signal.signal(number, caught) for number in ending}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- summing up ----------------------------------------------------------------------------------

    def _sum_up(self, why: str, killed: list[str], *, as_json: bool) -> int:
        failures = self._keeper.failures()
        exit_code = FragmentFailed.exit_code if failures or self._supervisor.given_up else 0
        self._added.count()
        streams = self._added.streams()
        seconds = round(self._monotonic() - self._started_s, 1)
        if as_json:
            say_json(
                {
                    "pipeline": self._pipeline.name,
                    "home": str(self._home.root),
                    "ended": why,
                    "seconds": seconds,
                    "streams": streams,
                    "restarts": self._supervisor.restarts,
                    "not_drained": killed,
                    "failures": failures,
                    "exit_code": exit_code,
                }
            )
            return exit_code
        say(f"{self._pipeline.name}: {why} after {seconds} s, {self._supervisor.restarts} restarts of nodes")
        for stream, added in streams.items():
            say(f"  {stream}: {added['epochs']:,} epochs, {added['rows']:,} rows, now at {added['epoch']:,}")
        if killed:
            say(f"  killed instead of drained, nothing is lost by it: {', '.join(killed)}")
        for failure in failures:
            note(plain(f"failed: {failure.subject} at epoch {failure.epoch}: {failure.reason}"))
            note(plain(failure.traceback.rstrip()))
        return exit_code


def printed_where(pipeline: Pipeline, home: Home) -> str:
    """Where to look for what console sinks print; empty if there are none. A node's output is its log."""
    sinks = [s for s in pipeline.sinks.values() if isinstance(s.sink, Console) and s.sink.file is None]
    if not sinks:
        return ""
    nodes = {node for sink in sinks for node in beside(sink.node, slots(pipeline, sink.node))}
    only = f" {next(iter(nodes))}" if len(nodes) == 1 else ""
    names = ", ".join(sink.name for sink in sinks)
    return f"what {names} prints: rekindle logs{only} -f --home {shlex.quote(str(home.root))}"
