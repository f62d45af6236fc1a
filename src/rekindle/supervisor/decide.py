"""What to do next, as a pure function of what is wanted and what was seen.

``decide`` is called again after its actions were carried out, until it has none left, so each rule only
looks at what is true now. A node that died is replaced by a warm one from the pool, if one is ready, or started anew.
The order that safety needs is in the rules: a dead incarnation is fenced first,
then what is left of it is killed, and a new one starts when nothing of it remains. Only an incarnation
whose lease ran out (it hangs, or is cut off) is replaced while its process may still be there: it is fenced,
and finds that out when it wakes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.keeper.records import Incarnation
from rekindle.pipeline import Settings
from rekindle.recovery.placement import in_pool, slot_of

BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 5.0)
LINGER_S = 10.0
REFUSED = 2
"""The exit code of a node that cannot run this pipeline file, however often it is started."""


class Standing(Enum):
    """What the keeper says of an incarnation."""

    LIVE = "live"
    LEFT = "left"
    FENCED = "fenced"


class Seen(Enum):
    """What the host says of an incarnation's process."""

    ALIVE = "alive"
    GONE = "gone"
    ELSEWHERE = "elsewhere"  # on another host: only its heartbeats tell


@dataclass(frozen=True, slots=True)
class Life:
    """One incarnation, as far as this supervisor knows. Durations are in its own monotonic time."""

    node: str
    incarnation: Incarnation
    standing: Standing = Standing.LIVE
    seen: Seen = Seen.ALIVE
    remains: bool = False  # the process is gone, but others that it started are still there
    ready: bool = False  # it has said so
    exit_code: int | None = None  # known of children only
    outdated: bool = False  # it runs other code than this supervisor's
    stale: str = ""  # why it should be replaced although it is well, for example by changed code
    beaten: bool = True  # its heartbeat was seen at least once
    quiet_s: float = 0.0  # since its heartbeats moved, or since leases started anew
    asked_s: float | None = None  # since it was asked to drain
    over_s: float = 0.0  # since it was fenced or had left
    hung: bool = False  # fenced while its process was there: it gets time to find out
    killed: bool = False  # a kill is on its way
    noted: bool = False  # that it ended is on record


@dataclass(frozen=True, slots=True)
class History:
    """What happened to a node so far. ``deaths`` counts since its streams last moved on."""

    deaths: int = 0
    start_at_s: float = 0.0
    given_up: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    node: str


@dataclass(frozen=True, slots=True)
class Promote:
    """Make a warm node of the pool the node ``node``."""

    node: str
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Fence:
    node: str
    incarnation: Incarnation
    why: str
    hung: bool = False  # leave its process alone for a while
    death: bool = False  # counts against the node


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL everything that this incarnation's process started, and itself."""

    node: str
    incarnation: Incarnation
    why: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask for a clean end at an epoch boundary."""

    node: str
    incarnation: Incarnation
    why: str


@dataclass(frozen=True, slots=True)
class Died:
    """It said goodbye to the keeper and ended, but nobody had asked it to."""

    node: str
    incarnation: Incarnation
    why: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing of this incarnation is left."""

    node: str
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class GiveUp:
    node: str
    deaths: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """The node says that the pipeline file is wrong: starting it again cannot help."""

    node: str
    incarnation: Incarnation


Action = Start | Promote | Fence | Kill | Drain | Died | Forget | GiveUp | Refuse


def backoff_s(deaths: int) -> float:
    """How long to wait before the start that follows the ``deaths``-th death in a row."""
    return BACKOFF_S[min(max(deaths - 1, 0), len(BACKOFF_S) - 1)]


def decide(
    now_s: float,
    wanted: Iterable[str],
    lives: Iterable[Life],
    histories: Mapping[str, History],
    settings: Settings,
    *,
    drain_s: float,
    ending: bool = False,
    full: bool = False,
) -> list[Action]:
    """The actions that bring what is seen closer to what is wanted, in the order to carry them out.

    ``ending`` means that the run ends: nothing is wanted, and nothing hung is waited for. ``full`` means that a new
    process would find no room on the home's disk: starts wait, and nobody is given up.
    """
    wanted = () if ending else tuple(sorted(set(wanted)))
    lives = sorted(lives, key=lambda life: life.incarnation)
    newest = {life.node: life.incarnation for life in lives if life.standing is Standing.LIVE}
    actions: list[Action] = []
    for life in lives:
        if life.standing is Standing.LIVE:
            superseded = newest[life.node] != life.incarnation
            actions += _of_live(life, life.node in wanted, superseded, settings, drain_s, ending)
        else:
            actions += _of_over(life, settings, ending)
    # Other code may have put a source or a fragment on another node: no two nodes shall read it at a time.
    if any(life.standing is Standing.LIVE and (life.outdated or life.node not in wanted) for life in lives):
        return actions
    warm = [life for life in lives if _is_warm(life)]
    live = [life for life in lives if life.standing is Standing.LIVE]
    up, starting = {life.node for life in live if life.ready}, {life.node for life in live if not life.ready}
    for node in sorted(wanted, key=in_pool):
        if any(life.standing is Standing.LIVE for life in lives if life.node == node):
            continue
        waits = any(_in_the_way(life) for life in lives if life.node == node)
        waits = waits or full or _gives_way(node, up, starting & {*wanted})
        found = _of_absent(node, histories.get(node, History()), now_s, settings, warm, waits)
        starting |= {action.node for action in found if isinstance(action, Start | Promote)}
        actions += found
    return actions


def _of_live(
    life: Life, wanted: bool, superseded: bool, settings: Settings, drain_s: float, ending: bool
) -> list[Action]:
    node, incarnation = life.node, life.incarnation
    if life.seen is Seen.GONE:
        return [Fence(node, incarnation, how_it_ended(life), death=life.asked_s is None), *_refusal(life)]
    if superseded:
        return [Fence(node, incarnation, "replaced by a newer incarnation", hung=True)]
    limit_s = settings.lease_s if life.beaten else max(settings.start_s, settings.lease_s)
    if life.quiet_s > limit_s:
        why = f"no heartbeat for {limit_s:g} s" if life.beaten else f"not up after {limit_s:g} s"
        return [Fence(node, incarnation, why, hung=True, death=life.asked_s is None)]
    if life.asked_s is not None:
        if life.asked_s >= drain_s:
            return [Fence(node, incarnation, f"not drained after {drain_s:g} s")]
        return []
    if not wanted:
        return [Drain(node, incarnation, "the run ends" if ending else "no longer wanted")]
    if life.stale:
        return [Drain(node, incarnation, life.stale)]
    return []


def _refusal(life: Life) -> list[Action]:
    refused = life.exit_code == REFUSED and life.asked_s is None
    return [Refuse(life.node, life.incarnation)] if refused else []


def _of_over(life: Life, settings: Settings, ending: bool) -> list[Action]:
    if life.standing is Standing.LEFT and life.seen is Seen.GONE and life.asked_s is None and not life.noted:
        return [Died(life.node, life.incarnation, how_it_ended(life)), *_refusal(life)]
    if life.seen is Seen.ELSEWHERE or (life.seen is Seen.GONE and not life.remains):
        return [Forget(life.node, life.incarnation)]
    if life.killed:
        return []
    if life.standing is Standing.LEFT:
        grace_s, why = LINGER_S, "it left, but something of it lingers"
    elif life.seen is Seen.GONE:
        grace_s, why = 0.0, "its process is gone"
    else:
        grace_s, why = (settings.zombie_s if life.hung and not ending else 0.0), "it is fenced"
    return [Kill(life.node, life.incarnation, why)] if life.over_s >= grace_s else []


def _in_the_way(life: Life) -> bool:
    """Whether a new process for its node has to wait for what is left of this one, which is over."""
    return not life.hung and life.seen is not Seen.ELSEWHERE and (life.seen is Seen.ALIVE or life.remains)


def _of_absent(
    node: str,
    history: History,
    now_s: float,
    settings: Settings,
    warm: list[Life],
    waits: bool,
) -> list[Action]:
    """``waits`` says that nothing can be started now; a warm node can take the place all the same."""
    if history.given_up or history.refused:
        return []
    if history.deaths > 0 and history.deaths >= settings.restarts_max:
        return [] if waits else [GiveUp(node, history.deaths)]
    if now_s < history.start_at_s:
        return []
    if warm and not in_pool(node):
        return [Promote(node, warm.pop(0).incarnation)]
    return [] if waits else [Start(node)]


def _is_warm(life: Life) -> bool:
    alive = life.standing is Standing.LIVE and life.seen is not Seen.GONE and life.asked_s is None
    return alive and in_pool(life.node) and life.ready and not life.stale


def _gives_way(node: str, up: Collection[str], starting: Collection[str]) -> bool:
    """Whether a start has to wait until others are up: a session that starts takes all of a small machine. The first
    node of a place comes first, then those that stand by it, then the pool."""
    if in_pool(node):
        return any(not in_pool(other) for other in starting)
    place, slot = slot_of(node)
    return slot > 1 and any(slot_of(o)[0] == place for o in starting) and all(slot_of(o)[0] != place for o in up)


def how_it_ended(life: Life) -> str:
    if life.exit_code is None:
        return "its process is gone"
    if life.exit_code < 0:
        return f"killed by signal {-life.exit_code}"
    return f"exited with code {life.exit_code}"
