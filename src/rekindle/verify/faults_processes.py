"""Faults of processes: they die, hang, and wake up; and the nodes' clock jumps. See ``faults`` for the model."""

from __future__ import annotations

import os
import signal
import time

import psutil

from rekindle.cli.kill import kill_on_record
from rekindle.errors import KeeperUnavailable, RekindleError
from rekindle.keeper import open_keeper
from rekindle.keeper.records import Member
from rekindle.supervisor.processes import start_ticks
from rekindle.verify.faults import NotInjected, choose
from rekindle.verify.trial import Trial

NOTICED_S = 30.0
WORKER_S = 20.0
READY_S = 90.0
AWAY_S = 1.0
HANG_TRIES = 10
HANG_S = 0.5
JUMP_S = 3600.0
JUMPED_S = 20.0


def kill_node(trial: Trial, pick: float) -> str:
    member = any_node(trial, pick)
    try:
        count = kill_on_record(trial.home, trial.keeper, member, time.time())
    except RekindleError as error:
        raise NotInjected(error.primary) from None
    return f"incarnation {member.incarnation} of {member.node}, {count} processes{_noticed(trial, member)}"


def kill_jvm(trial: Trial, pick: float) -> str:
    member = any_node(trial, pick)
    jvm = int(member.report["jvm_pid"])
    started = start_ticks(member.pid)
    if started is None or not _end(jvm):
        raise NotInjected(f"the JVM of {member.node} was gone already")
    if not trial.until(lambda: start_ticks(member.pid) != started, NOTICED_S):
        raise RekindleError(f"node {member.node!r} goes on without its JVM", detail=f"JVM {jvm}, node {member.pid}")
    return f"JVM {jvm} of incarnation {member.incarnation} of {member.node}; its node ended"


def kill_worker(trial: Trial, pick: float) -> str:
    found: list[int] = []

    def workers() -> bool:
        pids = [pid for member in trial.ready() for pid in trial.processes_of(member)]
        found[:] = [pid for pid in pids if _is_python_worker(pid)]
        return bool(found)

    if not trial.until(lambda: workers() or trial.ended is not None, WORKER_S) or not found:
        raise NotInjected("no Python worker of Spark ran: no operator that was computed calls a Python function")
    killed = [pid for pid in found if _end(pid)]
    if not killed:
        raise NotInjected("the Python workers had ended by themselves")
    return f"Python workers {', '.join(map(str, killed))}"


def kill_supervisor(trial: Trial, pick: float) -> str:
    if trial.ended is not None:
        raise NotInjected("the run had come to its end")
    pid = trial.kill_supervisor()
    trial.wait(AWAY_S + 3 * pick)
    trial.start()
    return f"supervisor {pid}; {trial.runs[-1].pid} adopted what ran"


def kill_all(trial: Trial, pick: float) -> str:
    if trial.ended is not None:
        raise NotInjected("the run had come to its end")
    pid = trial.kill_supervisor()
    count = trial.kill_nodes()
    trial.wait(AWAY_S * pick)
    trial.start()
    return f"supervisor {pid} and {count} processes of nodes; {trial.runs[-1].pid} started again"


def stop_node(trial: Trial, pick: float, lease_s: float) -> str:
    member = any_node(trial, pick)
    hang(trial, member)
    fenced = trial.until(lambda: is_over(trial, member), lease_s + NOTICED_S)
    if not fenced:
        os.killpg(member.pid, signal.SIGCONT)
        raise RekindleError(f"node {member.node!r} was stopped, and nobody noticed", detail=f"process {member.pid}")
    try:
        os.killpg(member.pid, signal.SIGCONT)
        woke = "it was woken, and ended by itself"
    except ProcessLookupError:
        return f"incarnation {member.incarnation} of {member.node}; its lease ran out, and it was killed"
    if not trial.until(lambda: start_ticks(member.pid) != member.pid_started, NOTICED_S):
        raise RekindleError(f"node {member.node!r} was fenced, woke up, and goes on", detail=f"process {member.pid}")
    return f"incarnation {member.incarnation} of {member.node}; its lease ran out, {woke}"


def jump_clock(trial: Trial, pick: float, jump_s: float = JUMP_S) -> str:
    shift_s = jump_s if pick < 0.5 else -jump_s
    since_s = time.time()
    trial.clock_file.write_text(f"{shift_s}")

    def jumped() -> bool:
        seen = list(trial.witnessed().seen.values())
        return any(s.at_s > since_s and abs(s.epoch.published_at_s - s.at_s) > jump_s / 2 for s in seen)

    try:
        happened = trial.until(lambda: jumped() or trial.ended is not None, JUMPED_S) and jumped()
    finally:
        trial.clock_file.write_text("0")
    if not happened:
        raise NotInjected("no epoch was published while the clock was wrong")
    return f"by {shift_s:+g} s: epochs have such times on record"


def any_node(trial: Trial, pick: float) -> Member:
    """A node that is ready; waits for one."""
    if not trial.until(lambda: trial.ready() or trial.ended is not None, READY_S) or not trial.ready():
        raise NotInjected("no node was ready")
    return choose(trial.ready(), pick, "node")


def is_over(trial: Trial, member: Member) -> bool:
    """Whether an incarnation is fenced, or has left."""
    try:
        return member.incarnation not in {live.incarnation for live in trial.keeper.members()}
    except KeeperUnavailable:
        return False


def hang(trial: Trial, member: Member) -> None:
    """Stop a node's processes at a moment when it is not in the middle of a transaction: on SQLite it would hold up
    the keeper, and be killed for that."""
    for _ in range(HANG_TRIES):
        try:
            os.killpg(member.pid, signal.SIGSTOP)
        except ProcessLookupError:
            raise NotInjected(f"{member.node} ended by itself") from None
        try:
            keeper = open_keeper(trial.place.direct, home=trial.home, clock=time.time, patience_s=HANG_S)
            try:
                keeper.event("hangs", member.node, incarnation=member.incarnation)
            finally:
                keeper.close()
            return
        except KeeperUnavailable:
            os.killpg(member.pid, signal.SIGCONT)
            trial.wait(HANG_S)
    raise NotInjected(f"{member.node} was in a transaction each of {HANG_TRIES} times")


def _noticed(trial: Trial, member: Member) -> str:
    return "; fenced" if trial.until(lambda: is_over(trial, member), NOTICED_S) else ""


def _end(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _is_python_worker(pid: int) -> bool:
    try:
        command = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
    return "pyspark.daemon" in command or "pyspark.worker" in command or "pyspark/daemon" in command
