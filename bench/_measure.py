"""One run of one peer: load its state, feed it at the pace, kill it again and again, let it finish, judge it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from bench._pauses import GAP, UPSTREAM, Kill, Pause, Run, pause_of, with_rows
from bench._peers import account
from bench._rows import Feeder, Rows, Tally, every_key
from bench.peers.base import Peer, PeerFailed
from rekindle.errors import RekindleError

POLL_S = 0.2
LOAD_S = 300.0
READY_S = 300.0
STEADY_S_MAX = 300.0
DRAIN_S = 120.0
QUIET_S = 3.0
PHASE_S = 1.0
"""A kill comes at a random moment of so many seconds, so that it may hit any step of an epoch."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Before each kill, and after the last, there are ``steady_epochs`` outputs and ``steady_s`` seconds."""

    kills: int
    steady_epochs: int
    steady_s: float


def measure(peer: Peer, keys: int, number: int, plan: Plan, random: Random, say: Callable[[str], None]) -> Run:
    """``peer`` is started and ended here. A peer that fails gives a run that says so."""
    say(f"{peer.name}, {keys:,} keys, round {number}: starts")
    peer.place.source.mkdir()
    loaded = every_key(peer.place.source, keys)
    feeder = Feeder(peer.place.source, keys, keys)
    try:
        with peer:
            pauses = _killed_again_and_again(peer, keys, feeder, plan, random, say)
            feeder.stop()
            fed = loaded + feeder.fed
            outcome = _outcome(peer, keys, fed)
    except (PeerFailed, RekindleError) as error:
        say(f"{peer.name}, {keys:,} keys, round {number}: FAILED: {error}")
        return Run(peer.name, keys, number, failed=str(error).splitlines()[0])
    finally:
        feeder.stop()
    rows = sum(part.count for part in fed)
    say(f"{peer.name}, {keys:,} keys, round {number}: {rows:,} rows, output {outcome}")
    return Run(peer.name, keys, number, rows=rows, outcome=outcome, pauses=tuple(pauses))


def _killed_again_and_again(
    peer: Peer, keys: int, feeder: Feeder, plan: Plan, random: Random, say: Callable[[str], None]
) -> list[Pause]:
    _until(lambda: sum(o.rows for o in peer.outputs()) >= keys, peer, LOAD_S, "put out all keys")
    feeder.start()
    kills: list[Kill] = []
    steady_from_s, _ = _steady(peer, time.time(), plan)
    for _ in range(plan.kills):
        time.sleep(random.uniform(0.0, PHASE_S))
        at_s = peer.kill()
        redundant_at_s, until_s = _steady(peer, at_s, plan)
        kills.append(Kill(at_s, steady_from_s, redundant_at_s, until_s))
        pause = pause_of(peer.outputs(), kills[-1])
        say(
            f"{peer.name}, {keys:,} keys: kill {len(kills)}: longest pause {pause.pause_s:.2f} s, epochs of "
            f"{pause.interval_s:.2f} s before, all back after {pause.redundant_s:.1f} s"
        )
        steady_from_s = redundant_at_s
    outputs, events = peer.outputs(), peer.events()
    return [pause_of(outputs, kill, events) for kill in kills]


def _steady(peer: Peer, since_s: float, plan: Plan) -> tuple[float, float]:
    """Wait until there was output since, all is there, and then for the steady stretch that the plan asks for, at the
    end of which all must be there still: who has just joined may yet fall behind. Returns when all was there, and when
    the stretch ended."""
    _until(lambda: any(o.at_s > since_s for o in with_rows(peer.outputs())), peer, READY_S, "put out anything more")
    _until(peer.redundant, peer, READY_S, "become ready")
    from_s = time.time()

    def steady() -> bool:
        if time.time() - from_s < plan.steady_s:
            return False
        return peer.redundant() and sum(o.at_s > from_s for o in with_rows(peer.outputs())) >= plan.steady_epochs

    _until(steady, peer, STEADY_S_MAX, f"put out {plan.steady_epochs} epochs, all of it ready to the end")
    return from_s, max(o.at_s for o in peer.outputs())


def _outcome(peer: Peer, keys: int, fed: list[Rows]) -> str:
    """Wait until nothing more comes, and judge; a verdict other than good has to stand for a while."""
    expected = Tally.of_input(fed, keys, windowed=peer.name == UPSTREAM)
    deadline_s = time.monotonic() + DRAIN_S
    while True:
        last = max(o.at_s for o in peer.outputs())
        if time.time() - last >= QUIET_S:
            outcome = judge(peer.results(), lambda: account(peer), expected, at_most=peer.name == GAP)
            if not outcome.startswith("WRONG") or time.monotonic() > deadline_s:
                return outcome
        peer.check()
        time.sleep(1.0)


def judge(
    results: Iterable[pa.Table], account: Callable[[], tuple[int, int]], expected: Tally, *, at_most: bool
) -> str:
    """What came out against what the input comes to, key by key. Where rows may be dropped, no key may be above it, and
    what ``account`` says was computed and dropped must be all of the input."""
    found = Tally(expected.keys)
    for table in results:
        found.apply(table)
    if not at_most:
        differing = found.differing(expected)
        return "exact" if not differing else f"WRONG: {differing:,} keys differ ({found.rows():,}/{expected.rows():,})"
    above = found.above(expected)
    if above:
        return f"WRONG: {above:,} keys are above what the input has"
    computed, dropped = account()
    if computed + dropped != expected.rows():
        return f"WRONG: of {expected.rows():,} rows {computed:,} were computed and {dropped:,} dropped on record"
    return f"at most ({dropped:,} rows dropped on record)"


def _until(condition: Callable[[], bool], peer: Peer, timeout_s: float, what: str) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        peer.check()
        if time.monotonic() > deadline_s:
            raise PeerFailed(f"{peer.name} did not {what} within {timeout_s:g} s\n{peer.story()}")
        time.sleep(POLL_S)
