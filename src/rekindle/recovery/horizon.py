"""The horizon: the oldest epochs and claims that somebody may still need. What lies before it may be trimmed.

A fragment needs what a replica of it could have to compute again. Where a replica may start is a matter of its policy;
one that runs already is further behind than that at times, and then it counts where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rekindle.keeper.records import Claim, EpochNumber, needed_input
from rekindle.recovery.gap import Gap
from rekindle.recovery.policy import Policy

FIRST = EpochNumber(1)


@dataclass(frozen=True, slots=True)
class Footing:
    """Where replicas of one fragment stand, and may start.

    ``head`` is the newest epoch that is published on all its streams, ``safe`` and ``pinned`` are the safe points
    that are kept, ``in_hand`` the epochs that live replicas of it compute next. A replica that has not made up its
    mind yet has epoch 0 in hand.
    """

    head: EpochNumber
    safe: Sequence[EpochNumber] = ()
    pinned: Sequence[EpochNumber] = ()
    in_hand: Sequence[EpochNumber] = ()


def needed_from(policy: Policy | None, footing: Footing, depends_on: Callable[[], EpochNumber]) -> EpochNumber:
    """The oldest epoch that a replica could have to compute again; ``policy`` is None for what keeps no state.

    ``depends_on`` gives the oldest epoch that a bounded state depends on; it is only asked where that matters.
    """
    starts = [_start(policy, footing, depends_on), *footing.in_hand]
    starts += [EpochNumber(epoch + 1) for epoch in footing.pinned]
    return max(FIRST, min(starts))


def _start(policy: Policy | None, footing: Footing, depends_on: Callable[[], EpochNumber]) -> EpochNumber:
    if policy is None:
        return EpochNumber(footing.head + 1)
    if isinstance(policy, Gap):
        return footing.head  # Spark commits an epoch only with the next one: a fork may stand before the head
    if policy.needs_bounded_memory:
        return min(footing.head, depends_on())
    if policy.layers is not None and footing.safe:
        return EpochNumber(min(footing.safe) + 1)
    return FIRST


@dataclass(frozen=True, slots=True)
class Need:
    """What one fragment (a source is one, too) needs: its epochs from ``since`` on.

    ``claim`` is the claim of ``since``, None if that is not made yet; ``before`` that of the epoch before.
    ``all_claims`` are needed by a source that must know its history.
    """

    fragment: str
    streams: Sequence[str]
    inputs: Sequence[str]
    since: EpochNumber
    claim: Claim | None
    before: Claim | None
    all_claims: bool = False


@dataclass(frozen=True, slots=True)
class Horizon:
    """``epochs`` by stream, ``claims`` by fragment: those before are needed by nobody."""

    epochs: Mapping[str, EpochNumber]
    claims: Mapping[str, EpochNumber]

    def and_also(self, other: Horizon) -> Horizon:
        """What neither of two needs. Of a stream or fragment that only one knows everything is kept."""
        return Horizon(_least(self.epochs, other.epochs), _least(self.claims, other.claims))


def horizon(needs: Iterable[Need], sinks: Iterable[tuple[str, EpochNumber]]) -> Horizon:
    """``sinks`` are pairs of a stream and the epoch that a sink of it takes next."""
    found = list(needs)
    epochs = {stream: need.since for need in found for stream in need.streams}
    for need in found:
        taken = set(need.inputs)
        for claim in (need.claim, need.before):
            taken |= claim.spans.keys() if claim is not None else set()
        for stream in (taken & epochs.keys()).difference(need.streams):
            epochs[stream] = min(epochs[stream], needed_input(stream, need.claim, need.before))
    for stream, following in sinks:
        if stream in epochs:
            epochs[stream] = min(epochs[stream], following)
    # Where it stands a replica also looks at the claim before.
    claims = {need.fragment: FIRST if need.all_claims else EpochNumber(max(1, need.since - 1)) for need in found}
    return Horizon(epochs, claims)


def _least(one: Mapping[str, EpochNumber], other: Mapping[str, EpochNumber]) -> dict[str, EpochNumber]:
    return {name: min(one[name], other[name]) for name in one.keys() & other.keys()}
