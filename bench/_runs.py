"""One run of one peer with one workload: start it, let input arrive, kill it or not, let it finish, judge it.

Every measure does the same at first: the peer starts with a little input and works until nothing more comes, so that
what is measured is a query that is under way.

Throughput: then all the rest of the input arrives at once; rows per second from there to the last output.
Latency: then the rest arrives at its pace; for each output row the time from the arrival of the input row that
brought it about to the moment when the output row was visible.
Recovery: the same, with a kill (or more) in the middle.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench._feed import Feed, Staged
from bench._pauses import Kill, pause_of, with_rows
from bench._usage import Usage
from bench._verdict import Verdict, columns, in_the_end, judged
from bench.peers.base import Peer, PeerFailed
from rekindle.errors import RekindleError

POLL_S = 0.02
START_S = 240.0
DRAIN_S = 45.0
REST_S = 600.0
SETTLED_S = 2.0
PHASE_S = 1.0
WARM_S = 3.0
LEAD_S = 10.0
CAUGHT_UP = 1.5
STAYS_S = 2.0
MOMENTS = ("shown", "any")
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run goes. The first ``warm_steps`` arrive one by one before anything is measured. Kill number k comes
    ``lead_s + k * spacing_s`` after the pace began; its moment is by turns right after an output was shown, when Spark
    has not yet taken down that it was, and any. ``disk_too``: what the killed process kept on its disk is lost with
    it."""

    warm_steps: int
    kills: int = 0
    lead_s: float = LEAD_S
    spacing_s: float = 30.0
    disk_too: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one run. ``failed`` says why there is nothing more. ``pauses`` are by kill: longest pause, first
    output, catching up, in seconds. ``timeline``: seconds since the first kill and rows, of each output. ``interval_s``
    is how often layers or checkpoints were made, where it was not the peer's own."""

    workload: str
    peer: str
    measure: str
    round: int
    parameters: Mapping[str, Any]
    interval_s: float | None = None
    rows: int = 0
    failed: str = ""
    verdict: Verdict | None = None
    rows_per_s: float | None = None
    cpu_s: float | None = None
    cpu_rows: int = 0
    peak_bytes: int | None = None
    recovery_bytes: Mapping[str, int] = field(default_factory=dict)
    latency_s: Mapping[str, float] = field(default_factory=dict)
    pauses: tuple[Mapping[str, Any], ...] = ()
    timeline: tuple[tuple[float, int], ...] = ()

    @property
    def is_sound(self) -> bool:
        return not self.failed and self.verdict is not None and self.verdict.is_right

    @property
    def outcome(self) -> str:
        return f"FAILED: {self.failed}" if self.failed else str(self.verdict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(said: Mapping[str, Any]) -> Result:
        verdict = Verdict(**said["verdict"]) if said["verdict"] is not None else None
        timeline = tuple((float(at_s), int(rows)) for at_s, rows in said["timeline"])
        return Result(**{**said, "verdict": verdict, "pauses": tuple(said["pauses"]), "timeline": timeline})


@dataclass(frozen=True, slots=True)
class Asked:
    """Which run: the measure, its number, and what should come out (None: the workload has a check)."""

    measure: str
    round: int
    plan: Plan
    expected: pa.Table | None
    random: Random
    say: Callable[[str], None]
    interval_s: float | None = None


def run(peer: Peer, staged: Staged, asked: Asked) -> Result:
    """``peer`` is started and ended here. A peer that fails gives a result that says so."""
    workload = staged.workload
    known = (workload.name, peer.name, asked.measure, asked.round, dict(workload.parameters), asked.interval_s)
    feed = Feed(workload.inputs, peer.place.source)
    try:
        with peer, Usage(peer.processes) as usage:
            measured = _measured(peer, staged, asked, feed, usage)
    except (PeerFailed, RekindleError) as error:
        return Result(*known, failed=str(error))
    finally:
        feed.stop()
    return Result(*known, rows=feed.rows, **measured)


def reference(peer: Peer, staged: Staged) -> pa.Table:
    """What an undisturbed peer puts out: the expected output where the workload does not tell. Raises PeerFailed."""
    feed = Feed(staged.workload.inputs, peer.place.source)
    with peer:
        feed.add(staged.steps)
        _until(peer.has_begun, peer, START_S, "begin")
        files = sum(len(step.files) for step in staged.steps)
        _until(lambda: peer.has_taken(files), peer, REST_S, f"take in all of its {files} files", poll_s=0.5)
        _until_quiet(peer, peer.quiet_s)
        return in_the_end([columns(table, staged.workload) for table in peer.results()], staged.workload)


def _measured(peer: Peer, staged: Staged, asked: Asked, feed: Feed, usage: Usage) -> dict[str, Any]:
    plan = asked.plan
    for step in staged.steps[: plan.warm_steps]:
        feed.add([step])
        _until(peer.has_begun, peer, START_S, "begin")
        _until_quiet(peer, peer.quiet_s)
    _until(peer.redundant, peer, START_S, "become ready")
    rest, since_s, before = staged.steps[plan.warm_steps :], time.time(), feed.rows
    kills: list[Kill] = []
    if asked.measure == "throughput":
        feed.add(rest)
    else:
        feed.start(rest)
        kills = _killed(peer, plan, asked, since_s)
        _until(lambda: feed.is_over, peer, rest[-1].due_s + REST_S, "get its input")
        feed.join()
    verdict = _finished(peer, staged, asked)
    usage.look()
    outputs = with_rows(peer.outputs())
    until_s = max((o.at_s for o in outputs), default=since_s)
    found: dict[str, Any] = {
        "verdict": verdict,
        "cpu_s": usage.cpu_between(since_s, until_s),
        "cpu_rows": feed.rows - before,
        "peak_bytes": usage.peak_bytes,
        "recovery_bytes": peer.recovery_bytes(),
    }
    if asked.measure == "throughput":
        if until_s <= since_s:
            raise PeerFailed(f"{peer.name} put out nothing after its warm-up: the input is too small to measure")
        return found | {"rows_per_s": (feed.rows - before) / (until_s - since_s)}
    first = kills[0].at_s if kills else since_s
    found["timeline"] = tuple((round(o.at_s - first, 3), o.rows) for o in outputs if o.at_s >= since_s)
    lags = Lags.of(peer, staged, feed)
    if asked.measure == "latency" and lags is not None:
        found["latency_s"] = lags.percentiles(since_s + WARM_S)
    if kills:
        found["pauses"] = tuple(_pause(peer, kill, number, lags) for number, kill in enumerate(kills))
    return found


# -- killing ---------------------------------------------------------------------------------------------


def _killed(peer: Peer, plan: Plan, asked: Asked, since_s: float) -> list[Kill]:
    at: list[float] = []
    back: list[float] = []
    for number in range(plan.kills):
        due_s = since_s + plan.lead_s + number * plan.spacing_s + asked.random.uniform(0.0, PHASE_S)
        _until(partial(_is_due, peer, due_s), peer, START_S, "be ready to be killed")
        if MOMENTS[(number + asked.round - 1) % len(MOMENTS)] == "shown":
            victims = peer.aim()
            _until(partial(_shows_more, peer, len(peer.look().all)), peer, START_S, "put out more", poll_s=0.002)
            at.append(peer.kill(victims))
        else:
            at.append(peer.kill())
        if plan.disk_too:
            peer.lose_disk()
        asked.say(f"{peer.name}: killed, {at[-1] - since_s:.1f} s after the input began")
        _until(partial(_goes_on, peer, at[-1]), peer, START_S, "go on")
        asked.say(f"{peer.name}: goes on, {time.time() - at[-1]:.1f} s after the kill")
        _until(peer.redundant, peer, START_S, "become ready again")
        back.append(time.time())
    steady, ends = [since_s, *back], [*at[1:], float("inf")]
    return [Kill(at[k], steady[k], back[k], ends[k]) for k in range(plan.kills)]


def _is_due(peer: Peer, due_s: float) -> bool:
    return time.time() >= due_s and peer.redundant()


def _shows_more(peer: Peer, seen: int) -> bool:
    return len(peer.look().all) > seen


def _goes_on(peer: Peer, since_s: float) -> bool:
    return any(output.at_s > since_s for output in with_rows(peer.outputs()))


def _pause(peer: Peer, kill: Kill, number: int, lags: Lags | None) -> dict[str, Any]:
    pause = pause_of(peer.outputs(), kill, peer.events())
    return {
        "pause_s": pause.pause_s,
        "interval_s": pause.interval_s,
        "first_output_s": pause.first_output_s,
        "redundant_s": pause.redundant_s,
        "caught_up_s": lags.caught_up(kill) if lags is not None else None,
        "events": [list(event) for event in pause.events],
        "number": number,
    }


# -- waiting ---------------------------------------------------------------------------------------------


def _until(condition: Callable[[], bool], peer: Peer, timeout_s: float, what: str, poll_s: float = POLL_S) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        peer.check()
        if time.monotonic() > deadline_s:
            raise PeerFailed(f"{peer.name} did not {what} within {timeout_s:g} s\n{peer.story()}")
        time.sleep(poll_s)


def _until_quiet(peer: Peer, quiet_s: float) -> None:
    """Until nothing new was shown for a while, from now on."""
    since_s, seen = time.monotonic(), len(peer.look().all)
    deadline_s = since_s + REST_S
    while time.monotonic() - since_s < quiet_s:
        peer.check()
        if time.monotonic() > deadline_s:
            raise PeerFailed(f"{peer.name} does not come to rest within {REST_S:g} s\n{peer.story()}")
        time.sleep(POLL_S)
        now = len(peer.look().all)
        if now != seen:
            since_s, seen = time.monotonic(), now


def _finished(peer: Peer, staged: Staged, asked: Asked) -> Verdict:
    """Wait until all is out, and judge; a verdict other than good stands when nothing more has come for a while."""
    while True:
        _until_quiet(peer, peer.quiet_s)
        seen = len(peer.sight.all)
        verdict = judged(peer, staged, asked.expected)
        deadline_s = time.monotonic() + DRAIN_S
        while not verdict.is_right and len(peer.look().all) == seen:
            peer.check()
            if time.monotonic() > deadline_s:
                return verdict
            time.sleep(POLL_S)
        if verdict.is_right:
            return verdict


# -- how far the output is behind the input --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lags:
    """For each output row when it was visible, when its cause had arrived, and its output."""

    shown_s: Seconds
    arrived_s: Seconds
    newest: Sequence[tuple[float, float]]  # by output: when it was shown, and how old the newest of its causes was

    @staticmethod
    def of(peer: Peer, staged: Staged, feed: Feed) -> Lags | None:
        workload = staged.workload
        if workload.cause is None:
            return None
        through = np.array([step.through for step in feed.steps])
        arrived = np.array(feed.arrived)
        shown_s, causes, newest = [], [], []
        for shown in peer.look().all:
            tables = [columns(peer.read(path), workload) for path in shown.kept]
            table = pa.concat_tables(tables, promote_options="permissive") if tables else None
            if table is None or not table.num_rows:
                continue
            when = arrived[np.searchsorted(through, workload.cause(table, workload.parameters))]
            shown_s.append(np.full(len(when), shown.at_s))
            causes.append(when)
            newest.append((shown.at_s, shown.at_s - float(when.max())))
        if not shown_s:
            return None
        return Lags(np.concatenate(shown_s), np.concatenate(causes), sorted(newest))

    def percentiles(self, since_s: float) -> dict[str, float]:
        """Of rows whose cause arrived after ``since_s``."""
        chosen = self.arrived_s >= since_s
        late = (self.shown_s - self.arrived_s)[chosen]
        if not len(late):
            return {}
        p50, p99 = np.percentile(late, [50, 99])
        return {"p50": float(p50), "p99": float(p99), "max": float(late.max()), "rows": len(late)}

    def caught_up(self, kill: Kill) -> float | None:
        """How long after a kill the output is as fresh as before, and stays so for two seconds; None if it never is."""
        before = [lag for at_s, lag in self.newest if kill.steady_from_s + WARM_S <= at_s <= kill.at_s]
        if not before:
            return None
        usual = float(np.percentile(before, 95)) * CAUGHT_UP
        after = [(at_s, lag) for at_s, lag in self.newest if kill.at_s < at_s <= kill.until_s]
        for at_s, _ in after:
            if all(lag <= usual for then_s, lag in after if at_s <= then_s <= at_s + STAYS_S):
                return at_s - kill.at_s
        return None
