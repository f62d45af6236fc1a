"""The supervisor: looks, decides, acts, and looks again until nothing is left to do.

It holds nothing that matters: all it needs to go on is in the keeper and in the processes themselves, so
it can be killed at any moment, and the next one adopts what runs. While the keeper is away it acts on
nothing, since nobody can be fenced.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rekindle.errors import DeclarationError, Fenced, KeeperUnavailable
from rekindle.home import Home
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, EpochNumber, Incarnation, Member
from rekindle.pipeline import Pipeline
from rekindle.supervisor import decide as d
from rekindle.supervisor.leases import Leases
from rekindle.supervisor.lives import Known, adopted
from rekindle.supervisor.logs import complaint, tail, without_secrets
from rekindle.supervisor.processes import Processes, this_host

DRAIN_S = 60.0
ENDINGS = ("", REJECTED_SUFFIX)
STUBBORN_S = 30.0
POLL_S = 0.25
_ROUNDS_MAX = 10


class Supervisor:
    """Keeps the nodes of one pipeline running on one home. Call ``step`` again and again, then ``drain``.

    ``command`` starts a node when ``--node NAME --incarnation N`` is added to it. ``code`` is the
    fingerprint of what nodes run: running nodes with another one are drained and replaced. The caller
    holds the home's lock.
    """

    def __init__(
        self,
        home: Home,
        keeper: Keeper,
        pipeline: Pipeline,
        command: Sequence[str],
        *,
        code: str,
        keeper_url: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        host: str | None = None,
    ) -> None:
        self._home = home
        self._keeper = keeper
        self._pipeline = pipeline
        self._command = tuple(command)
        self._code = code
        self._keeper_url = keeper_url
        self._clock = clock
        self._host = host or this_host()
        self._processes = Processes(home.id)
        self._leases = Leases(pipeline.settings.lease_s)
        self._known: dict[Incarnation, Known] = {}
        self._last: dict[str, Known] = {}
        self._histories: dict[str, d.History] = {}
        self._progress: dict[str, object] = {}
        self._events: deque[tuple[str, str, dict[str, Any]]] = deque()
        self._looked = False
        self._ending = False
        self._drain_s = DRAIN_S
        self.restarts = 0
        self.refusal: DeclarationError | None = None
        self.keeper_away_since_s: float | None = None
        self._note("supervisor_started", pipeline.name, pid=os.getpid(), host=self._host, code=code)

    # -- what others may ask -------------------------------------------------------------------------

    @property
    def given_up(self) -> tuple[str, ...]:
        """The nodes that died too often, in order."""
        return tuple(sorted(node for node, history in self._histories.items() if history.given_up))

    @property
    def nothing_left(self) -> bool:
        """Whether every node is given up: waiting longer brings nothing."""
        return self.given_up == self._pipeline.nodes()

    @property
    def all_ready(self) -> bool:
        """Whether every node that is not given up has said that it is ready."""
        ready = {k.node for k in self._known.values() if k.standing is d.Standing.LIVE and k.ready}
        return self._looked and ready >= set(self._pipeline.nodes()) - set(self.given_up)

    def wake(self) -> None:
        """Make a waiting ``step`` go on. Safe in a signal handler."""
        self._processes.wake()

    # -- the loop ------------------------------------------------------------------------------------

    def step(self, timeout_s: float = POLL_S) -> None:
        """Wait until something happens, at most ``timeout_s``, then do all that there is to do.

        Returns also when the keeper is away: ``keeper_away_since_s`` says so. Raises DeclarationError when
        a node says that the pipeline file is wrong.
        """
        self._processes.wait(min(timeout_s, self._next_start_s()))
        try:
            for _ in range(_ROUNDS_MAX):
                if not self._round():
                    break
            self._say()
            self.keeper_away_since_s = None
        except KeeperUnavailable:
            self._leases.start_anew()
            if self.keeper_away_since_s is None:
                self.keeper_away_since_s = self._clock()
        if self.refusal is not None and not self._ending:
            raise self.refusal

    def drain(
        self,
        timeout_s: float = DRAIN_S,
        *,
        progress: Callable[[Sequence[str]], None] | None = None,
        hurry: Callable[[], bool] = lambda: False,
    ) -> list[str]:
        """End all nodes at an epoch boundary. Those that take longer, or all when ``hurry()`` turns true, are
        fenced and killed, which is safe, only slower to resume from. Returns the nodes that were killed.
        """
        self._ending = True
        self._drain_s = timeout_s
        deadline_s = self._clock() + timeout_s
        late: set[str] = set()
        for known in self._live():
            self._ask(known, "the run ends")
        while self._looked is False or self._known:
            if hurry():
                self._drain_s, deadline_s = 0.0, min(deadline_s, self._clock())
            overdue = self._clock() >= deadline_s
            if overdue:
                late |= {known.node for known in self._live()}
            self.step(POLL_S)
            if overdue and self.keeper_away_since_s is not None:
                self._kill_unfenced()
                if all(known.seen() is not d.Seen.ALIVE for known in self._known.values()):
                    break
            if self._clock() >= deadline_s + STUBBORN_S:
                break
            if progress is not None:
                progress(sorted({known.node for known in self._known.values()}))
        return sorted(late)

    def close(self) -> None:
        """Stop watching. Nodes that still run go on, and the next supervisor adopts them."""
        self._note("supervisor_stopped", self._pipeline.name, pid=os.getpid(), restarts=self.restarts)
        try:
            self._say()
        except KeeperUnavailable:
            self._events.clear()  # nobody is there to be told
        for known in self._known.values():
            if known.watched is not None:
                self._processes.forget(known.watched)
        self._known.clear()
        self._processes.close()

    def _round(self) -> bool:
        """Look, decide and act once; whether anything was done."""
        self._look()
        now_s = self._clock()
        lives = [k.life(now_s, self._leases.quiet_s(k.incarnation, now_s), self._processes) for k in self._by_age()]
        actions = d.decide(
            now_s,
            self._pipeline.nodes(),
            lives,
            self._histories,
            self._pipeline.settings,
            drain_s=self._drain_s,
            ending=self._ending,
        )
        for action in actions:
            self._act(action)
        return bool(actions)

    # -- looking -------------------------------------------------------------------------------------

    def _look(self) -> None:
        now_s = self._clock()
        members = {member.incarnation: member for member in self._keeper.members()}
        gap_s = self._leases.look(now_s, {incarnation: member.beats for incarnation, member in members.items()})
        if gap_s is not None:
            self._note("supervisor_held_up", self._pipeline.name, gap_s=round(gap_s, 3))
        for member in members.values():
            self._see(member, now_s)
        vanished = [known for known in self._live() if known.incarnation not in members]
        if vanished or not self._looked:
            everybody = {member.incarnation: member for member in self._keeper.members(live=False)}
            for known in vanished:
                self._see_over(known, everybody[known.incarnation], now_s)
            if not self._looked:
                self._find_leftovers(everybody, now_s)
        self._looked = True

    def _see(self, member: Member, now_s: float) -> None:
        known = self._known.get(member.incarnation)
        if known is None:
            known = self._known[member.incarnation] = self._adopt(member, now_s)
        known.beaten = known.beaten or member.beats > 0
        if not known.ready and member.report.get("phase") == "ready":
            known.ready = True
            self._note("node_ready", known.node, incarnation=known.incarnation, after_s=round(now_s - known.since_s, 3))
        if not known.presented:
            self._present(known)
        if not known.told:
            self._keeper.want(known.incarnation, "drain")
            known.told = True

    def _see_over(self, known: Known, member: Member, now_s: float) -> None:
        left = member.state == "left"
        known.is_over(d.Standing.LEFT if left else d.Standing.FENCED, now_s, hung=not left)
        if left:
            self._note("node_left", known.node, incarnation=known.incarnation, asked=known.asked_at_s is not None)

    def _adopt(self, member: Member, now_s: float) -> Known:
        log = self._log(member.node, member.incarnation)
        known = adopted(member, self._processes, host=self._host, code=self._code, log=log, now_s=now_s)
        self._last.setdefault(known.node, known)
        if known.seen() is not d.Seen.GONE:
            pid = known.watched.pid if known.watched is not None else member.pid
            same_code = known.current
            self._note("supervisor_adopted", known.node, incarnation=known.incarnation, pid=pid, same_code=same_code)
        return known

    def _find_leftovers(self, everybody: dict[Incarnation, Member], now_s: float) -> None:
        """Processes of incarnations that are over, which an earlier supervisor did not live to kill."""
        for incarnation in self._processes.incarnations():
            member = everybody.get(incarnation)
            if member is None or incarnation in self._known:
                continue
            log = self._log(member.node, incarnation)
            known = adopted(member, self._processes, host=self._host, code=self._code, log=log, now_s=now_s)
            left = member.state == "left"
            known.is_over(d.Standing.LEFT if left else d.Standing.FENCED, now_s, hung=known.seen() is d.Seen.ALIVE)
            known.noted = True
            self._known[incarnation] = known

    # -- acting --------------------------------------------------------------------------------------

    def _act(self, action: d.Action) -> None:
        match action:
            case d.Start(node):
                self._start(node)
            case d.Fence():
                self._fence(self._known[action.incarnation], action)
            case d.Kill(node, incarnation, why):
                known = self._known[incarnation]
                known.killed_at_s = self._clock()
                count = self._processes.kill(incarnation, known.watched)
                self._note("node_killed", node, incarnation=incarnation, processes=count, why=why)
            case d.Drain(_, incarnation, why):
                self._ask(self._known[incarnation], why)
            case d.Died(_, incarnation, why):
                known = self._known[incarnation]
                self._count_death(known, why)
                known.noted = True
            case d.Forget(_, incarnation):
                known = self._known.pop(incarnation)
                if known.watched is not None:
                    self._processes.forget(known.watched)
            case d.GiveUp(node, deaths):
                self._give_up(node, deaths)
            case d.Refuse(node, incarnation):
                self._histories[node] = replace(self._history(node), refused=True)
                self.refusal = complaint(self._scrubbed(tail(self._known[incarnation].log)))
                self._note("node_refused", node, incarnation=incarnation, reason=self.refusal.primary)

    def _start(self, node: str) -> None:
        if node not in self._progress:
            self._progress[node] = self._progress_of(node)
        incarnation = self._keeper.enlist(node, code=self._code)
        now_s = self._clock()
        log = self._log(node, incarnation)
        known = Known(node, incarnation, log, here=True, watched=None, since_s=now_s, presented=False)
        self._known[incarnation] = known
        command = [*self._command, "--node", node, "--incarnation", str(incarnation)]
        env = dict(os.environ)
        env.pop("REKINDLE_KEEPER", None)
        if self._keeper_url is not None:
            env["REKINDLE_KEEPER"] = self._keeper_url
        try:
            known.watched = self._processes.start(incarnation, command, log, env)
        except OSError as error:
            self._note("node_not_started", node, incarnation=incarnation, reason=str(error))
        else:
            self._note("node_started", node, incarnation=incarnation, pid=known.watched.pid)
        old = self._last.get(node)
        if old is not None:
            self.restarts += 1
            self._note("node_replaced", node, incarnation=old.incarnation, by=incarnation)
        self._last[node] = known
        self._present(known)

    def _present(self, known: Known) -> None:
        watched = known.watched
        known.presented = True
        if watched is None:
            return
        try:
            self._keeper.present(known.incarnation, host=self._host, pid=watched.pid, pid_started=watched.pid_started)
        except KeeperUnavailable:
            known.presented = False
            raise
        except Fenced:
            return  # the next look at the members says so too

    def _fence(self, known: Known, action: d.Fence) -> None:
        if action.death:
            self._count_death(known, action.why, before=lambda: self._keeper.fence(known.incarnation, action.why))
        else:
            self._keeper.fence(known.incarnation, action.why)
        known.is_over(d.Standing.FENCED, self._clock(), hung=action.hung)
        known.noted = True
        self._note("node_fenced", known.node, incarnation=known.incarnation, why=action.why)

    def _count_death(self, known: Known, why: str, before: Callable[[], object] = lambda: None) -> None:
        """Put a death on record. What can fail for want of the keeper comes first, so that it can be repeated."""
        progress = self._progress_of(known.node)
        before()
        moved = progress != self._progress.get(known.node)
        self._progress[known.node] = progress
        history = self._history(known.node)
        deaths = 1 if moved else history.deaths + 1
        start_at_s = self._clock() + d.backoff_s(deaths)
        self._histories[known.node] = replace(history, deaths=deaths, start_at_s=start_at_s)
        code = known.watched.exit_code() if known.watched is not None else None
        self._note("node_died", known.node, incarnation=known.incarnation, noticed=why, exit_code=code, deaths=deaths)

    def _give_up(self, node: str, deaths: int) -> None:
        last = self._last[node]
        reason = f"node {node!r} died {deaths} times without a new epoch in between"
        text = "\n".join(self._scrubbed(tail(last.log)))
        self._keeper.record_failure(
            f"node {node}", EpochNumber(0), reason=reason, traceback=text, by=last.incarnation
        )
        self._histories[node] = replace(self._history(node), given_up=True)
        self._note("node_given_up", node, incarnation=last.incarnation, deaths=deaths, log=str(last.log.name))

    def _ask(self, known: Known, why: str) -> None:
        """Ask for a drain, once: through the keeper, and by a signal if it is on this host."""
        if known.asked_at_s is not None:
            return
        known.asked_at_s = self._clock()
        self._note("node_asked_to_drain", known.node, incarnation=known.incarnation, why=why)
        if known.watched is not None:
            known.watched.signal(signal.SIGTERM)
        try:
            self._keeper.want(known.incarnation, "drain")
        except KeeperUnavailable:
            known.told = False

    def _kill_unfenced(self) -> None:
        """The keeper is away and the run must end: kill without fencing, since nothing takes over now."""
        for known in self._known.values():
            if known.here:
                self._processes.kill(known.incarnation, known.watched)

    # -- small things --------------------------------------------------------------------------------

    def _by_age(self) -> list[Known]:
        return sorted(self._known.values(), key=lambda known: known.incarnation)

    def _live(self) -> list[Known]:
        return [known for known in self._by_age() if known.standing is d.Standing.LIVE]

    def _history(self, node: str) -> d.History:
        return self._histories.get(node, d.History())

    def _log(self, node: str, incarnation: Incarnation) -> Any:
        return self._home.logs / f"{node}-{incarnation}.log"

    def _next_start_s(self) -> float:
        """Until the next start that waits for its backoff to pass."""
        if not self._looked:
            return 0.0
        running = {known.node for known in self._live()}
        pending = [
            history.start_at_s - self._clock()
            for node, history in self._histories.items()
            if node not in running and not history.given_up and not history.refused
        ]
        return max(0.0, min((wait_s for wait_s in pending if wait_s > 0), default=POLL_S * 4))

    def _progress_of(self, node: str) -> object:
        """Something that changes whenever a stream of the node has a new epoch, or a sink of it took one."""
        p = self._pipeline
        names = {f"{source.name}{ending}" for source in p.sources.values() if source.node == node for ending in ENDINGS}
        names |= {stream.name for stream in p.streams.values() if stream.node == node}
        heads = sorted((name, epoch.epoch) for name, epoch in self._keeper.heads().items() if name in names)
        return heads, [(sink.name, self._keeper.delivered(sink.name)) for sink in p.sinks.values() if sink.node == node]

    def _scrubbed(self, lines: Sequence[str]) -> list[str]:
        return [without_secrets(line, self._keeper_url) for line in lines]

    def _note(self, kind: str, subject: str, **detail: Any) -> None:
        self._events.append((kind, subject, detail))

    def _say(self) -> None:
        while self._events:
            kind, subject, detail = self._events[0]
            self._keeper.event(kind, subject, **detail)
            self._events.popleft()
