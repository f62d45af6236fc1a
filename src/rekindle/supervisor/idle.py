"""Whether a pipeline has done all that there is to do for now, read from the keeper alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import REJECTED_SUFFIX, Claim, Epoch, StreamRecord
from rekindle.pipeline import Pipeline

LOOK_EPOCHS = 100


@dataclass(frozen=True, slots=True)
class Standing:
    """One look at how far everything is. Two equal ones mean that nothing moved in between."""

    claims: dict[str, Claim | None]
    heads: dict[str, Epoch]
    delivered: dict[str, int]
    records: dict[str, StreamRecord]
    failed: frozenset[str]
    unread: frozenset[tuple[str, str]]  # fragment and input, where rows wait; epochs without rows may lie unclaimed

    @property
    def moved(self) -> object:
        """What changes with every claim, publish and delivery."""
        claimed = sorted((fragment, claim.epoch) for fragment, claim in self.claims.items() if claim is not None)
        return claimed, sorted((stream, epoch.epoch) for stream, epoch in self.heads.items()), self.delivered


def look(keeper: Keeper, pipeline: Pipeline) -> Standing:
    """How far everything is now."""
    records = keeper.streams()
    claims = {fragment: keeper.last_claim(fragment) for fragment in sorted({r.fragment for r in records.values()})}
    heads = keeper.heads()
    unread = set()
    for record in records.values():
        claim = claims[record.fragment]
        for name in set(record.inputs) & heads.keys():
            through = claim.spans[name].through if claim is not None and name in claim.spans else 0
            waiting = keeper.epochs(name, after=through, through=heads[name].epoch, limit=LOOK_EPOCHS)
            if len(waiting) == LOOK_EPOCHS or any(epoch.output.rows for epoch in waiting):
                unread.add((record.fragment, name))
    return Standing(
        claims=claims,
        heads=heads,
        delivered={sink: keeper.delivered(sink) for sink in pipeline.sinks},
        records=records,
        failed=frozenset(failure.subject for failure in keeper.failures()),
        unread=frozenset(unread),
    )


def is_settled(now: Standing, pipeline: Pipeline, given_up: Collection[str]) -> bool:
    """Whether every fragment has consumed and published all there is, and every sink has taken it.

    Fragments and sinks that failed, or whose node is given up, are not waited for. What a source outside
    may still hold is not known here: only time tells (nothing moves for a while).
    """

    def head(stream: str) -> int:
        return now.heads[stream].epoch if stream in now.heads else 0

    def is_out(fragment: str) -> bool:
        return fragment in now.failed or _node_of(fragment, now.records, pipeline) in given_up

    for fragment, claim in now.claims.items():
        if is_out(fragment):
            continue
        own = [record for record in now.records.values() if record.fragment == fragment]
        if any(head(record.stream) != (claim.epoch if claim is not None else 0) for record in own):
            return False
        if any(reader == fragment for reader, _ in now.unread):
            return False
    for sink in pipeline.sinks.values():
        if sink.name in now.failed or sink.node in given_up:
            continue
        if now.delivered[sink.name] != head(sink.stream):
            return False
    return True


def is_hopeless(now: Standing, pipeline: Pipeline, given_up: Collection[str]) -> bool:
    """Whether every fragment has failed, and no sink that still works has anything left to take."""
    running = [f for f in now.claims if f not in now.failed and _node_of(f, now.records, pipeline) not in given_up]
    return bool(now.claims) and not running and is_settled(now, pipeline, given_up)


def _node_of(fragment: str, records: dict[str, StreamRecord], pipeline: Pipeline) -> str | None:
    for record in records.values():
        if record.fragment == fragment:
            declared = (
                pipeline.streams.get(record.stream)
                or pipeline.sources.get(record.stream)
                or pipeline.sources.get(record.stream.removesuffix(REJECTED_SUFFIX))
            )
            if declared is not None:
                return declared.node
    return None
