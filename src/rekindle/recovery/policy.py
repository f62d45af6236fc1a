"""What a policy is, and the one function that decides from where a replica joins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.errors import DeclarationError, StateDamaged
from rekindle.keeper.records import EpochNumber

PRECISE, AT_LEAST_ONCE, AT_MOST_ONCE = "precise", "at-least-once", "at-most-once"
GUARANTEES = (PRECISE, AT_LEAST_ONCE, AT_MOST_ONCE)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is left of a fragment when a replica of it joins.

    ``published`` and ``claimed`` are its newest epochs on record, ``oldest_claim`` the oldest claim that was not
    trimmed. ``local`` is where the furthest checkpoint stands that can be forked here, ``intact`` whether the
    replica that wrote it lives, or has left by itself. ``safe`` is the newest safe point that stores hold.
    ``depends_on`` is the oldest epoch that the state of a bounded memory depends on, if that is known.
    """

    published: EpochNumber
    claimed: EpochNumber
    oldest_claim: EpochNumber
    local: EpochNumber | None = None
    intact: bool = False
    safe: EpochNumber | None = None
    depends_on: EpochNumber | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """Link the furthest checkpoint on this host."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Assemble the newest safe point from the stores."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Start empty, and replay the claims after ``base``. Up to the epoch on record its output is incomplete unless
    ``base`` is 0, and is not compared."""

    base: EpochNumber


@dataclass(frozen=True, slots=True)
class Jump:
    """Start empty at the newest input; what lies between is dropped, on record."""


Start = Fork | Restore | Replay | Jump


@dataclass(frozen=True)
class Policy(ABC):
    """``replicas`` nodes host a replica; ``all_compute`` says whether each of them computes, or only the one that
    owns the fragment. ``copies`` of every layer go to ``stores``; none are shipped if it is 0.
    """

    @property
    def replicas(self) -> int:
        return 1

    @property
    def all_compute(self) -> bool:
        return False

    @property
    def layers(self) -> Layers | None:
        """How layers are shipped, None if they are not."""
        return None

    @property
    def guarantee(self) -> str:
        """The strongest delivery guarantee that this policy can give a stream."""
        return PRECISE

    @property
    def needs_bounded_memory(self) -> bool:
        """Whether the state must depend on a bounded stretch of the input only."""
        return False

    @abstractmethod
    def start(self, now: Situation) -> Start:
        """From where a replica joins. Raises StateDamaged where nothing is left to start from."""

    @abstractmethod
    def describe(self) -> str:
        """One line for ``explain``."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers go to ``copies`` of the ``stores`` (a store in the home if none is named), at most every
    ``interval`` seconds."""

    stores: tuple[str, ...] = ()
    copies: int = 1
    interval: float = 5.0

    def describe(self) -> str:
        where = ", ".join(self.stores) or "the home"
        return f"layers to {where}, {self.copies} {'copies' if self.copies > 1 else 'copy'}, every {self.interval:g} s"


def layers_of(stores: Sequence[str] | str, copies: int, interval: float) -> Layers | None:
    """Checked. None for no copies."""
    named = (stores,) if isinstance(stores, str) else tuple(stores)
    if not isinstance(copies, int) or not 0 <= copies <= max(1, len(named)):
        raise DeclarationError(
            f"{copies!r} copies of each layer cannot be kept in {max(1, len(named))} stores",
            hint="name as many stores as there shall be copies, or more; 0 copies ship nothing",
        )
    if not interval >= 0:
        raise DeclarationError(f"interval must be a number of seconds, not {interval!r}")
    return Layers(named, copies, float(interval)) if copies else None


def furthest(now: Situation) -> Start:
    """The checkpoint that stands furthest, here or in the stores; without any, everything is computed again."""
    if now.local is not None and now.local >= (now.safe or 0):
        return Fork()
    if now.safe is not None:
        return Restore()
    if now.oldest_claim <= 1:
        return Replay(EpochNumber(0))
    raise StateDamaged(
        "no checkpoint is left, and the inputs to compute it again were trimmed",
        detail=f"published up to epoch {now.published}, the oldest claim that is kept is of epoch {now.oldest_claim}",
        hint="bring a store back that holds its layers",
    )
