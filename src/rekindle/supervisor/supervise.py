"""The supervisor: looks, decides, acts, and looks again until nothing is left to do.

It holds nothing that matters: all it needs to go on is in the keeper and in the processes themselves, so
it can be killed at any moment, and the next one adopts what runs. While the keeper is away it acts on
nothing, since nobody can be fenced.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from rekindle.errors import DeclarationError, Fenced, KeeperUnavailable
from rekindle.home import Home
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, EpochNumber
from rekindle.pipeline import Pipeline
from rekindle.recovery.placement import lost_places, nodes_of, pool_of, slot_of
from rekindle.supervisor import decide as d
from rekindle.supervisor.chronicle import Chronicle
from rekindle.supervisor.lives import Known
from rekindle.supervisor.logs import complaint, tail, without_secrets
from rekindle.supervisor.processes import Processes, this_host
from rekindle.supervisor.roster import Roster

DRAIN_S = 60.0
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
        is_full: Callable[[], bool] | None = None,
    ) -> None:
        self._keeper = keeper
        self._pipeline = pipeline
        self._command = tuple(command)
        self._code = code
        self._keeper_url = keeper_url
        self._clock = clock
        self._is_full = is_full or home.is_full
        self._full = False
        host = host or this_host()
        self._processes = Processes(home.id)
        self._chronicle = Chronicle(keeper)
        self._roster = Roster(
            home,
            keeper,
            self._processes,
            self._chronicle,
            lease_s=pipeline.settings.lease_s,
            code=code,
            host=host,
            clock=clock,
        )
        self._histories: dict[str, d.History] = {}
        self._progress: dict[str, object] = {}
        self._ending = False
        self._late: set[str] = set()
        self._closed = False
        self._drain_s = DRAIN_S
        self.restarts = 0
        self.refusal: DeclarationError | None = None
        self.keeper_away_since_s: float | None = None
        self._note("supervisor_started", pipeline.name, pid=os.getpid(), host=host, code=code)

    # -- what others may ask -------------------------------------------------------------------------

    @property
    def given_up(self) -> tuple[str, ...]:
        """The places of which every node died too often, in order."""
        nodes = [node for node, history in self._histories.items() if history.given_up]
        return tuple(sorted(lost_places(self._pipeline, nodes)))

    @property
    def nothing_left(self) -> bool:
        """Whether every place is given up: waiting longer brings nothing."""
        return self.given_up == self._pipeline.nodes()

    @property
    def all_ready(self) -> bool:
        """Whether at every place that is not given up a node has said that it is ready."""
        ready = {slot_of(known.node)[0] for known in self._roster.live() if known.ready}
        return self._roster.looked and ready >= set(self._pipeline.nodes()) - set(self.given_up)

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
            self._chronicle.say()
            self.keeper_away_since_s = None
        except KeeperUnavailable:
            self._roster.keeper_was_away()
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
        for known in self._roster.live():
            self._ask(known, "the run ends")
        while not self._roster.looked or self._roster.known:
            if hurry():
                self._drain_s, deadline_s = 0.0, min(deadline_s, self._clock())
            self.step(POLL_S)
            if self._clock() >= deadline_s and self.keeper_away_since_s is not None:
                self._kill_unfenced()
                if all(known.seen() is not d.Seen.ALIVE for known in self._roster.known.values()):
                    break
            if self._clock() >= deadline_s + STUBBORN_S:
                break
            if progress is not None:
                progress(sorted({known.node for known in self._roster.known.values()}))
        return sorted(self._late)

    def close(self) -> None:
        """Stop watching. Nodes that still run go on, and the next supervisor adopts them."""
        if self._closed:
            return
        self._closed = True
        self._note("supervisor_stopped", self._pipeline.name, pid=os.getpid(), restarts=self.restarts)
        with suppress(KeeperUnavailable):  # nobody is there to be told
            self._chronicle.say()
        for known in self._roster.known.values():
            if known.watched is not None:
                self._processes.forget(known.watched)
        self._roster.known.clear()
        self._processes.close()

    def _round(self) -> bool:
        """Look, decide and act once; whether anything was done."""
        now_s = self._roster.look()
        self._look_at_disk()
        actions = d.decide(
            now_s,
            (*nodes_of(self._pipeline), *pool_of(self._pipeline)),
            self._roster.lives(now_s),
            self._histories,
            self._pipeline.settings,
            drain_s=self._drain_s,
            ending=self._ending,
            full=self._full,
        )
        for action in actions:
            self._act(action)
        return bool(actions)

    def _look_at_disk(self) -> None:
        full = self._is_full()
        if full != self._full:
            self._note("disk_full" if full else "disk_wait_over", self._pipeline.name)
        self._full = full

    # -- acting --------------------------------------------------------------------------------------

    def _act(self, action: d.Action) -> None:
        match action:
            case d.Start(node):
                self._start(node)
            case d.Promote(node, incarnation):
                self._promote(node, self._roster.known[incarnation])
            case d.GiveUp(node, deaths):
                self._give_up(node, deaths)
            case _:
                self._act_on(self._roster.known[action.incarnation], action)

    def _act_on(self, known: Known, action: d.Action) -> None:
        match action:
            case d.Fence():
                self._fence(known, action)
            case d.Kill():
                self._kill(known, action.why)
            case d.Drain():
                self._ask(known, action.why)
            case d.Died():
                self._count_death(known, action.why)
                known.noted = True
            case d.Forget():
                del self._roster.known[known.incarnation]
                if known.watched is not None:
                    self._processes.forget(known.watched)
            case d.Refuse() if slot_of(known.node)[0] in self._roster.proven:
                pass  # the file was good before: what is wrong now may pass, and does not concern the others
            case d.Refuse():
                self._histories[known.node] = replace(self._history(known.node), refused=True)
                self.refusal = complaint(self._end_of_log(known))
                self._note("node_refused", known.node, incarnation=known.incarnation, reason=self.refusal.primary)

    def _start(self, node: str) -> None:
        if node not in self._progress:
            self._progress[node] = self._progress_of(node)
        incarnation = self._keeper.enlist(node, code=self._code)
        before = self._roster.newest.get(node)
        known = self._roster.add(node, incarnation, self._clock())
        env = dict(os.environ)
        env.pop("REKINDLE_KEEPER", None)
        if self._keeper_url is not None:
            env["REKINDLE_KEEPER"] = self._keeper_url
        command = [*self._command, "--node", node, "--incarnation", str(incarnation)]
        try:
            known.watched = self._processes.start(incarnation, command, known.log, env)
        except OSError as error:
            self._note("node_not_started", node, incarnation=incarnation, reason=str(error))
        else:
            self._note("node_started", node, incarnation=incarnation, pid=known.watched.pid)
        if before is not None:
            self.restarts += 1
            self._note("node_replaced", node, incarnation=before.incarnation, by=incarnation)
        try:
            self._roster.present(known)
        except Fenced:
            known.presented = True  # the next look at the members says so too

    def _promote(self, node: str, known: Known) -> None:
        """A warm node takes a place. Its process is told by the record that it watches."""
        was, before = known.node, self._roster.newest.get(node)
        self._progress.setdefault(node, self._progress_of(node))
        try:
            self._keeper.promote(known.incarnation, node)
        except Fenced:
            return  # the next look sees that it is over
        known.node, known.ready, known.since_s = node, False, self._clock()
        self._roster.newest[node] = known
        self._roster.newest.pop(was, None)
        self._note("node_promoted", node, incarnation=known.incarnation, was=was)
        if before is not None:
            self.restarts += 1
            self._note("node_replaced", node, incarnation=before.incarnation, by=known.incarnation)

    def _fence(self, known: Known, action: d.Fence) -> None:
        if action.death:
            self._count_death(known, action.why, first=lambda: self._fence_on_record(known, action))
        else:
            self._fence_on_record(known, action)
        if self._ending and known.seen() is not d.Seen.GONE:
            self._late.add(known.node)
        known.is_over(d.Standing.FENCED, self._clock(), hung=action.hung)
        known.noted = True
        self._note("node_fenced", known.node, incarnation=known.incarnation, why=action.why)

    def _fence_on_record(self, known: Known, action: d.Fence) -> None:
        """A process that was stopped in the middle of a transaction on SQLite holds up everybody, also who would
        fence it. It is killed, which ends its transaction. PostgreSQL sees to that by itself."""
        try:
            self._keeper.fence(known.incarnation, action.why)
        except KeeperUnavailable:
            if self._keeper_url is None and known.here and known.watched is not None and known.watched.stopped():
                self._kill(known, "it was stopped while it held the keeper")
            raise

    def _kill(self, known: Known, why: str) -> None:
        again = known.killed_at_s is not None
        known.killed_at_s = self._clock()
        count = self._processes.kill(known.incarnation, known.watched)
        if count and not again:
            self._note("node_killed", known.node, incarnation=known.incarnation, processes=count, why=why)

    def _kill_unfenced(self) -> None:
        """The keeper is away and the run must end: kill without fencing, since nothing takes over now."""
        for known in self._roster.known.values():
            if known.here:
                if known.seen() is not d.Seen.GONE:
                    self._late.add(known.node)
                self._kill(known, "the run ends, and the keeper is away")

    def _count_death(self, known: Known, why: str, first: Callable[[], object] = lambda: None) -> None:
        """Put a death on record. What can fail for want of the keeper comes first, so that it can be repeated. On a
        full disk a death says nothing about the node, and does not count against it."""
        progress = self._progress_of(known.node)
        first()
        moved = progress != self._progress.get(known.node)
        self._progress[known.node] = progress
        history = self._history(known.node)
        deaths = (0 if moved else history.deaths) + (0 if self._full else 1)
        start_at_s = self._clock() + d.backoff_s(deaths)
        self._histories[known.node] = replace(history, deaths=deaths, start_at_s=start_at_s)
        code = known.watched.exit_code() if known.watched is not None else None
        self._note(
            "node_died",
            known.node,
            incarnation=known.incarnation,
            noticed=why,
            exit_code=code,
            deaths=deaths,
            silent_s=round(self._roster.quiet_s(known.incarnation), 3),
        )

    def _give_up(self, node: str, deaths: int) -> None:
        last = self._roster.newest[node]
        self._keeper.record_failure(
            f"node {node}",
            EpochNumber(0),
            reason=f"node {node!r} died {deaths} times without a new epoch in between",
            traceback="\n".join(self._end_of_log(last)),
            by=last.incarnation,
        )
        self._histories[node] = replace(self._history(node), given_up=True)
        self._note("node_given_up", node, incarnation=last.incarnation, deaths=deaths, log=last.log.name)

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
            known.told = False  # it is told at the next look

    # -- small things --------------------------------------------------------------------------------

    def _history(self, node: str) -> d.History:
        return self._histories.get(node, d.History())

    def _next_start_s(self) -> float:
        """Until the next start that waits for its backoff to pass."""
        if not self._roster.looked:
            return 0.0
        running = {known.node for known in self._roster.live()}
        waits_s = [
            history.start_at_s - self._clock()
            for node, history in self._histories.items()
            if node not in running and not history.given_up and not history.refused
        ]
        return min((wait_s for wait_s in waits_s if wait_s > 0), default=DRAIN_S)

    def _progress_of(self, node: str) -> object:
        """Something that changes whenever a stream of the node's place has a new epoch, or a sink of it took one; for
        the pool, whenever any has."""
        p = self._pipeline
        place, _ = slot_of(node)
        places = {place} if place in p.nodes() else set(p.nodes())
        names = {name for name, source in p.sources.items() if source.node in places}
        names |= {f"{name}{REJECTED_SUFFIX}" for name in names}
        names |= {name for name, stream in p.streams.items() if stream.node in places}
        heads = sorted((name, epoch.epoch) for name, epoch in self._keeper.heads().items() if name in names)
        return heads, [(name, self._keeper.delivered(name)) for name, sink in p.sinks.items() if sink.node in places]

    def _end_of_log(self, known: Known) -> list[str]:
        return [without_secrets(line, self._keeper_url) for line in tail(known.log)]

    def _note(self, kind: str, subject: str, **detail: object) -> None:
        self._chronicle.note(kind, subject, **detail)
