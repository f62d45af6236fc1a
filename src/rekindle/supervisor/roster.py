"""Looking: which incarnations there are, by the keeper's records and by this host's processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rekindle.home import Home
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Incarnation, Member
from rekindle.recovery.placement import slot_of
from rekindle.supervisor.chronicle import Chronicle
from rekindle.supervisor.decide import Life, Seen, Standing
from rekindle.supervisor.leases import Leases
from rekindle.supervisor.lives import Known, adopted, says_ready
from rekindle.supervisor.processes import Processes


class Roster:
    """The incarnations under one supervisor's eye. ``look`` brings it up to date; those that an earlier
    supervisor started are adopted on the way.
    """

    def __init__(
        self,
        home: Home,
        keeper: Keeper,
        processes: Processes,
        chronicle: Chronicle,
        *,
        lease_s: float,
        code: str,
        host: str,
        clock: Callable[[], float],
    ) -> None:
        self._home = home
        self._keeper = keeper
        self._processes = processes
        self._chronicle = chronicle
        self._code = code
        self._host = host
        self._clock = clock
        self._leases = Leases(lease_s)
        self.known: dict[Incarnation, Known] = {}
        self.newest: dict[str, Known] = {}
        self.proven: set[str] = set()  # the places where a node with the code of now was ready
        self.looked = False

    def look(self) -> float:
        """Take everything in; returns when it began, which is the moment to judge leases by: whatever holds this
        process up afterwards does not count as the nodes' silence.
        """
        now_s = self._clock()
        members = {member.incarnation: member for member in self._keeper.members()}
        gap_s = self._leases.look(now_s, {incarnation: member.beats for incarnation, member in members.items()})
        if gap_s is not None:
            self._chronicle.note("supervisor_held_up", self._home.pipeline, gap_s=round(gap_s, 3))
        for member in members.values():
            self._see(member, now_s)
        vanished = [known for known in self.live() if known.incarnation not in members]
        if vanished or not self.looked:
            everybody = {member.incarnation: member for member in self._keeper.members(live=False)}
            for known in vanished:
                self._see_over(known, everybody[known.incarnation], now_s)
            if not self.looked:
                self._find_leftovers(everybody, now_s)
        self.looked = True
        return now_s

    def keeper_was_away(self) -> None:
        """Nobody could be heard: all leases start anew."""
        self._leases.start_anew()

    def lives(self, now_s: float) -> list[Life]:
        """What ``decide`` needs to know of each."""
        return [
            known.life(now_s, self._leases.quiet_s(known.incarnation, now_s), self._processes)
            for known in self.known.values()
        ]

    def quiet_s(self, incarnation: Incarnation) -> float:
        """Seconds since its heartbeats were seen to move."""
        return self._leases.quiet_s(incarnation, self._clock())

    def live(self) -> list[Known]:
        """Those that the keeper counts as live, oldest first."""
        live = [known for known in self.known.values() if known.standing is Standing.LIVE]
        return sorted(live, key=lambda known: known.incarnation)

    def add(self, node: str, incarnation: Incarnation, now_s: float) -> Known:
        """A new incarnation, whose process is about to be started here."""
        known = Known(
            node, incarnation, self.log(node, incarnation), here=True, watched=None, since_s=now_s, presented=False
        )
        self.known[incarnation] = known
        self.newest[node] = known
        return known

    def present(self, known: Known) -> None:
        """Tell the keeper which process an incarnation has. The process does so too: whoever comes first."""
        watched = known.watched
        if watched is not None:
            self._keeper.present(known.incarnation, host=self._host, pid=watched.pid, pid_started=watched.pid_started)
        known.presented = True

    def log(self, node: str, incarnation: Incarnation) -> Path:
        """The log file keeps the name that the node was started with, also when it is promoted."""
        found = sorted(self._home.logs.glob(f"*-{incarnation}.log"))
        return found[0] if found else self._home.logs / f"{node}-{incarnation}.log"

    def _see(self, member: Member, now_s: float) -> None:
        known = self.known.get(member.incarnation)
        if known is None:
            known = self.known[member.incarnation] = self._adopt(member, now_s)
            self._say_adopted(known, member)
        known.beaten = known.beaten or member.beats > 0
        if known.node != member.node:  # promoted
            known.node, known.ready, known.since_s = member.node, False, now_s
            self.newest[member.node] = known
        if not known.ready and says_ready(member):
            known.ready = True
            after_s = round(now_s - known.since_s, 3)
            self._chronicle.note("node_ready", known.node, incarnation=known.incarnation, after_s=after_s)
        if known.ready and not known.outdated:
            self.proven.add(slot_of(known.node)[0])
        if not known.stale and self._has_forgotten_failures(member):
            known.stale = "what failed in it is to be tried again"
        if not known.presented and not member.pid:
            self.present(known)
        if not known.told:
            self._keeper.want(known.incarnation, "drain")
            known.told = True

    def _has_forgotten_failures(self, member: Member) -> bool:
        """Whether something in the node stopped for good, by a failure that is no longer on record: a new run
        cleared it, but only a new process tries again."""
        failed = set(member.report.get("failed") or ())
        return bool(failed) and not failed <= {failure.subject for failure in self._keeper.failures()}

    def _see_over(self, known: Known, member: Member, now_s: float) -> None:
        left = member.state == "left"
        known.is_over(Standing.LEFT if left else Standing.FENCED, now_s, hung=not left)
        if left:
            asked = known.asked_at_s is not None
            self._chronicle.note("node_left", known.node, incarnation=known.incarnation, asked=asked)

    def _adopt(self, member: Member, now_s: float) -> Known:
        log = self.log(member.node, member.incarnation)
        known = adopted(member, self._processes, host=self._host, code=self._code, log=log, now_s=now_s)
        self.newest.setdefault(known.node, known)
        return known

    def _say_adopted(self, known: Known, member: Member) -> None:
        if known.seen() is Seen.GONE:
            return  # what comes next is its fence
        self._chronicle.note(
            "supervisor_adopted",
            known.node,
            incarnation=known.incarnation,
            pid=known.watched.pid if known.watched is not None else member.pid,
            same_code=not known.stale,
        )

    def _find_leftovers(self, everybody: dict[Incarnation, Member], now_s: float) -> None:
        """Processes of incarnations that are over, which an earlier supervisor did not live to kill."""
        for incarnation in self._processes.incarnations():
            member = everybody.get(incarnation)
            if member is None or incarnation in self.known:
                continue
            known = adopted(
                member,
                self._processes,
                host=self._host,
                code=self._code,
                log=self.log(member.node, incarnation),
                now_s=now_s,
            )
            standing = Standing.LEFT if member.state == "left" else Standing.FENCED
            known.is_over(standing, now_s, hung=standing is Standing.FENCED and known.seen() is Seen.ALIVE)
            known.noted = True
            self.known[incarnation] = known
