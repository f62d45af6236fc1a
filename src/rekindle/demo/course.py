"""The course of the demonstration: start the pipeline, receive, kill a node, go on, and judge.

The pipeline runs as everybody runs it, ``rekindle run`` in a process of its own. This process only looks: at
the sink's folder as a receiver would, and at the keeper's records.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.cli.facts import Facts, Watch
from rekindle.cli.failovers import failovers
from rekindle.cli.kill import kill_member, kill_on_record
from rekindle.cli.opened import opened
from rekindle.demo.chain import STEPS, Death, chain
from rekindle.demo.oracle import KEY, Starts, expected_rows
from rekindle.demo.outcome import Outcome
from rekindle.demo.receiver import Receiver
from rekindle.demo.sabotage import sabotage
from rekindle.demo.scale import PIPELINE_FILE, Scale
from rekindle.demo.show import Scene, View
from rekindle.errors import KeeperUnavailable, RekindleError
from rekindle.home import Home
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber
from rekindle.supervisor.chains import Moment
from rekindle.verify.trace import judge, longest_pause

JUDGED_BY = {"score": "scores", "main": "matched"}
"""The nodes that may be killed, each with the stream whose next epoch says that it is back."""

SINK_ON = "main"

LOOK_S = 0.05
DRAW_S = 0.5
START_S = 180.0
SLACK_S = 300.0
DRAIN_S = 20.0
LATEST_FLOWING = 0.5
LATEST = 0.7
"""The shares of the input at which the kill comes at the latest, where output flows already and where not yet."""
IDLE = "4s"
RUN = (sys.executable, "-m", "rekindle", "run")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be shown."""

    folder: Path
    scale: Scale
    victim: str
    kill_after_s: float
    sabotage: str | None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def log(self) -> Path:
        return self.folder / "run.log"


@dataclass(slots=True)
class Course:
    """One demonstration. Call ``play`` once, and ``end`` whatever happened."""

    plan: Plan
    view: View
    clock: Callable[[], float] = time.time
    act: str = "starting: two nodes, each a process with a Spark of its own"
    _run: subprocess.Popen[bytes] | None = None
    _receiver: Receiver = field(init=False)
    _started_s: float = field(init=False)
    _drawn_s: float = 0.0
    _facts: Facts | None = None
    _death: Death | None = None
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._started_s = self.clock()
        self._receiver = Receiver(self.plan.out, KEY, clock=self.clock)

    def play(self) -> Outcome:
        """From the start of the pipeline to the verdict. Raises RekindleError if it does not even start."""
        self._start()
        self._wait_for_home()
        with opened(self.plan.home, None) as (home, keeper):
            run_code = self._watch(home, keeper)
            done = None if self.plan.sabotage is None else sabotage(self.plan.out, self.plan.sabotage)
            self._receiver.look(thorough=True)
            return self._judge(keeper, run_code, done)

    def end(self) -> None:
        """End all that was started: ask for a drain, then kill, by process id. Safe to call again."""
        run = self._run
        if run is not None and run.poll() is None:
            self.act = "draining to an epoch boundary; Ctrl-C once more kills"
            self.view.say(self.act)
            self._draw()
            for _ in range(2):
                run.send_signal(signal.SIGINT)
                try:
                    run.wait(DRAIN_S)
                    break
                except (subprocess.TimeoutExpired, KeyboardInterrupt):
                    continue
            if run.poll() is None:
                run.kill()
                run.wait()
        if run is not None and (self.plan.home / "home.json").exists():
            with opened(self.plan.home, None) as (home, keeper):
                for member in keeper.members():
                    try:
                        kill_member(home, member)
                    except RekindleError as error:
                        self.view.say(f"{error.primary}")

    # -- the acts ------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.plan.out.mkdir(parents=True, exist_ok=True)
        command = [*RUN, str(PIPELINE_FILE), "--home", str(self.plan.home), "--until-idle", IDLE]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("REKINDLE_", "FRAUD_"))}
        env |= self.plan.scale.environment(self.plan.out)
        with open(self.plan.log, "wb") as log:
            # A session of its own: Ctrl-C in the terminal reaches only us, and we ask it to drain.
            self._run = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
        self.view.say(f"rekindle run {PIPELINE_FILE.name}: supervisor is process {self._run.pid}")

    def _wait_for_home(self) -> None:
        while not (self.plan.home / "keeper.db").exists():
            self._fail_if_ended()
            self._draw()
            time.sleep(LOOK_S)

    def _watch(self, home: Home, keeper: Keeper) -> int | None:
        """Look on until the run has ended; its exit code, or None if it had to be ended for taking too long."""
        watch = Watch(keeper, clock=self.clock, monotonic=time.monotonic)
        first_s: float | None = None
        while self._run is not None:
            code = self._run.poll()  # before the look: what is delivered last is still seen
            now_s = self.clock()
            self._receiver.look()
            if first_s is None and self._receiver.arrivals:
                first_s = self._receiver.arrivals[0]
                self.act = "output flows"
                self.view.say(
                    f"output flows; in at most {self.plan.kill_after_s:g} s node {self.plan.victim} is killed"
                )
            if code is not None:
                self._tell_chain(keeper)
                return code
            if first_s is None and now_s - self._started_s > START_S:
                raise self._failure(f"no output within {START_S:g} s")
            if now_s - self._started_s > self.plan.scale.seconds + SLACK_S:
                return None
            if self._death is None and self._is_time(keeper, first_s, now_s):
                self._death = self._kill(home, keeper)
            if now_s - self._drawn_s >= DRAW_S:
                try:
                    self._facts = watch.look()
                    self._tell_chain(keeper)
                except KeeperUnavailable:
                    self._facts = None  # shown as it is at the next look
                self._draw()
            time.sleep(LOOK_S)
        return None

    def _is_time(self, keeper: Keeper, first_s: float | None, now_s: float) -> bool:
        """Whether to kill now. Where the start takes long the kill comes earlier, so that input goes on after it."""
        if first_s is not None and now_s - first_s >= self.plan.kill_after_s:
            return True
        claim = keeper.claim_of("payments", EpochNumber(1))
        if claim is None:
            return False
        used = (now_s - int(claim.spans["payments"].through["start_us"]) / 1e6) / self.plan.scale.seconds
        return used >= (LATEST_FLOWING if first_s is not None else LATEST)

    def _kill(self, home: Home, keeper: Keeper) -> Death | None:
        """SIGKILL the victim's Python and JVM; None if it does not run at this moment."""
        victim = self.plan.victim
        live = {member.node: member for member in keeper.members() if member.state == "running"}
        if victim not in live:
            return None
        member, stream = live[victim], JUDGED_BY[victim]
        at_s = self.clock()
        processes = kill_on_record(home, keeper, member, at_s)
        self.act = f"node {victim} is dead; the others carry on"
        self.view.say(f"SIGKILL of node {victim}: process {member.pid} and the {processes - 1} that it started")
        self._told.add("died")
        return Death(victim, int(member.incarnation), member.pid, processes, at_s, stream, victim == SINK_ON)

    def _tell_chain(self, keeper: Keeper) -> None:
        moments = self._moments(keeper)
        for moment in moments:
            if moment.step in self._told:
                continue
            self._told.add(moment.step)
            self.view.say(f"{moment.step}, {moment.at_s - moments[0].at_s:.1f} s after the kill: {moment.detail}")
            if moment.step == STEPS[-1]:
                self.act = f"node {self.plan.victim} is back; on to the end of the input"

    def _moments(self, keeper: Keeper) -> list[Moment]:
        return [] if self._death is None else chain(self._death, failovers(keeper), self._receiver.arrivals)

    # -- the verdict ---------------------------------------------------------------------------------

    def _judge(self, keeper: Keeper, run_code: int | None, done: str | None) -> Outcome:
        scale = self.plan.scale
        self.act = "computing what must have come out"
        self._draw()
        starts = {}
        faults = []
        for source, rows_per_s in (("payments", scale.payments_per_s), ("logins", scale.logins_per_s)):
            claim, last = keeper.claim_of(source, EpochNumber(1)), keeper.last_claim(source)
            if claim is None or last is None:
                raise self._failure(f"the generator {source} never started")
            starts[source] = int(claim.spans[source].through["start_us"])
            used = int(last.spans[source].through["seq"])
            if used != rows_per_s * scale.seconds:
                faults.append(f"only {used:,} of {rows_per_s * scale.seconds:,} rows of {source} were used up")
        if run_code is None:
            faults.append("the pipeline did not come to its end in time")
        elif run_code != 0:
            faults.append(f"'rekindle run' ended with exit code {run_code}, see {self.plan.log}")
        moments = self._moments(keeper)
        missing = [step for step in STEPS if step not in {moment.step for moment in moments}]
        if missing:
            faults.append(f"not seen of the death of node {self.plan.victim}: {', '.join(missing)}")
        expected = expected_rows(scale, Starts(starts["payments"], starts["logins"]))
        if not expected:
            faults.append("no row was to be expected, so nothing was checked")
        input_ended_s = max(starts.values()) / 1e6 + scale.seconds
        arrivals = self._receiver.arrivals
        killed_s = self._death.at_s if self._death is not None else input_ended_s
        before = [at_s for at_s in arrivals if at_s < killed_s]
        return Outcome(
            verdict=judge(self._receiver.trace(), expected),
            pause=longest_pause(arrivals, input_ended_s=input_ended_s),
            pause_before=longest_pause(before, input_ended_s=killed_s) if len(before) > 1 else None,
            moments=tuple(moments),
            meanwhile=self._meanwhile(keeper, moments),
            disturbances=tuple(f"{d.file} {d.what}" for d in self._receiver.disturbances),
            faults=tuple(faults),
            sabotage=done,
        )

    def _meanwhile(self, keeper: Keeper, moments: list[Moment]) -> dict[str, int]:
        """The rows that other nodes published between the death and the first epoch after it."""
        back_s = next((m.at_s for m in moments if m.step == "first epoch"), None)
        if self._death is None or back_s is None:
            return {}
        own = {member.incarnation for member in keeper.members(live=False) if member.node == self._death.node}
        rows: dict[str, int] = {}
        for stream in keeper.streams():
            for epoch in keeper.epochs(stream, after=0):
                if self._death.at_s < epoch.published_at_s < back_s and epoch.incarnation not in own:
                    rows[stream] = rows.get(stream, 0) + epoch.output.rows
        return rows

    # -- small things --------------------------------------------------------------------------------

    def _draw(self) -> None:
        now_s = self._drawn_s = self.clock()
        arrivals = self._receiver.arrivals
        quiet_s = now_s - arrivals[-1] if arrivals else None
        self.view.draw(Scene(now_s - self._started_s, self.act, self._facts, self._receiver.rows, quiet_s))

    def _fail_if_ended(self) -> None:
        if self._run is None or self._run.poll() is not None:
            raise self._failure("'rekindle run' ended at once")
        if self.clock() - self._started_s > START_S:
            raise self._failure(f"no home within {START_S:g} s")

    def _failure(self, primary: str) -> RekindleError:
        tail = self.plan.log.read_text(errors="replace").splitlines()[-15:] if self.plan.log.exists() else []
        return RekindleError(primary, detail="\n".join(tail), hint="run again with --keep DIR to look at its logs")
