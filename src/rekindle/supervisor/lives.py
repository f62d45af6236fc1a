"""The incarnations that a supervisor keeps an eye on, and what it needs to remember of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rekindle.keeper.records import Incarnation, Member
from rekindle.supervisor.decide import Life, Seen, Standing
from rekindle.supervisor.processes import Processes, Watched, start_ticks

KILL_AGAIN_S = 1.0


@dataclass(slots=True)
class Known:
    """One incarnation under this supervisor's eye. Times are its monotonic clock's."""

    node: str
    incarnation: Incarnation
    log: Path
    here: bool
    watched: Watched | None  # None: not here, or gone before it could be watched
    since_s: float
    outdated: bool = False
    stale: str = ""
    standing: Standing = Standing.LIVE
    hung: bool = False
    beaten: bool = False
    ready: bool = False
    presented: bool = True
    noted: bool = False
    told: bool = True  # the keeper knows that it is asked to drain, if it is
    asked_at_s: float | None = None
    over_at_s: float | None = None
    killed_at_s: float | None = None

    def seen(self) -> Seen:
        if not self.here:
            return Seen.ELSEWHERE
        return Seen.GONE if self.watched is None or self.watched.ended() else Seen.ALIVE

    def is_over(self, standing: Standing, now_s: float, *, hung: bool) -> None:
        """It was fenced, or has left."""
        self.standing, self.hung, self.over_at_s = standing, hung, now_s

    def life(self, now_s: float, quiet_s: float, processes: Processes) -> Life:
        """What ``decide`` needs to know."""
        seen = self.seen()
        over = self.standing is not Standing.LIVE
        return Life(
            self.node,
            self.incarnation,
            standing=self.standing,
            seen=seen,
            remains=over and seen is Seen.GONE and bool(processes.remains(self.incarnation, self.watched)),
            ready=self.ready,
            exit_code=self.watched.exit_code() if self.watched is not None and seen is Seen.GONE else None,
            outdated=self.outdated,
            stale=self.stale,
            beaten=self.beaten,
            quiet_s=quiet_s,
            asked_s=None if self.asked_at_s is None else now_s - self.asked_at_s,
            over_s=0.0 if self.over_at_s is None else now_s - self.over_at_s,
            hung=self.hung,
            killed=self.killed_at_s is not None and now_s - self.killed_at_s < KILL_AGAIN_S,
            noted=self.noted,
        )


def says_ready(member: Member) -> bool:
    """Whether an incarnation has said that it is ready to be the node that it is."""
    return member.report.get("phase") == "ready" and member.report.get("node", member.node) == member.node


def adopted(member: Member, processes: Processes, *, host: str, code: str, log: Path, now_s: float) -> Known:
    """An incarnation that an earlier supervisor started, with its process if that is here and still the same.

    One that is enlisted but not presented is looked for by its mark: its supervisor died before or just
    after it started the process.
    """
    pid, pid_started = member.pid, member.pid_started
    here = not pid or member.host == host
    if not pid:
        for candidate in processes.incarnations().get(member.incarnation, []):
            ticks = start_ticks(candidate)
            if ticks is not None and processes.leads(candidate):
                pid, pid_started = candidate, ticks
    return Known(
        node=member.node,
        incarnation=member.incarnation,
        log=log,
        here=here,
        watched=processes.adopt(pid, pid_started) if here and pid else None,
        since_s=now_s,
        outdated=member.code != code,
        stale="" if member.code == code else "the pipeline's code has changed",
        beaten=member.beats > 0,
        ready=says_ready(member),
        presented=bool(member.pid),
        asked_at_s=now_s if member.want == "drain" else None,
    )
