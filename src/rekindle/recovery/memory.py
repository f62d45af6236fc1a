"""How far back the state of a fragment reaches: from which epoch an empty replica must replay.

What is claimed here rests on how Spark 4.3 treats time. Batch e goes by one watermark, W(e), which is settled before
the batch begins: for each watermarked column the latest event time in the batches before e, less its delay, and the
least of these (a column that has seen no row yet counts as 0). W never falls. At the end of batch e everything in the
state that lies at or below W(e) is removed, a window by its end; rows that batch e brings are dropped as late if they
lie at or below W(e - 1).

Let B be W(head) less the fragment's span. After epoch ``head`` no row before B is left in the state, so the epochs
to replay are those from the oldest one that brought a row of event time B or later. The state of a replica that
starts empty at that epoch is then, as far as any later output is concerned, that of one that computed everything:

* Its watermark is the same at ``head`` and ever after. The rows that brought W to where it stood have event times of
  W(head) or later, and so have all later maxima; their epochs lie before ``head`` and are replayed. So the governing
  watermark is that of ``head``, and no further epoch is needed for it.
* A row at or after B is late in the replay exactly where it was late before: to be late it takes rows that are later
  still, and the epochs of these are replayed in the same order. (That matters for what outlives the row: whether the
  other side of an outer join has found a match.)
* A row before B that was dropped as late may be taken in by the replay, whose watermark starts at nothing. It is
  removed at ``head`` at the latest, and what comes out until then is on record already and is not published.
* Rows count for the watermark only where Spark evaluates it, after filters that it has pushed down. Therefore
  W(head) is taken from the record of the epoch and not from the event times of the input. Filters can only make B
  smaller than the input's event times suggest, and the replay filters in the same way.

All of this needs the watermark to be a function of the claims. It is one in a query that runs from its first claim
without a restart. When Spark restarts a query with several watermarked columns it remembers their least only, and
the watermark may then stand still for a while; see ``Memory.watermarks``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import BrokenInvariant
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import EpochNumber


@dataclass(frozen=True, slots=True)
class Memory:
    """How far behind the watermark (``span_us``) a row of ``inputs`` may lie that the state still depends on.

    ``inputs`` are the streams whose rows enter the state or move the watermark, by their recorded event times; there
    are none if there is no state. ``watermarks`` counts the watermarked columns.
    """

    inputs: frozenset[str]
    span_us: int
    watermarks: int


NOTHING = Memory(frozenset(), 0, 0)


def oldest_needed(
    keeper: Keeper, fragment: str, memory: Memory, head: EpochNumber, *, since: EpochNumber = EpochNumber(1)
) -> EpochNumber:
    """The oldest epoch of ``fragment`` that an empty replica must replay; ``head + 1`` if it need not replay any.

    ``head`` is the newest published epoch. ``since`` is an earlier answer for an earlier head, if there is one: the
    answer never falls as the head rises, and what lies before it is not looked at again. Without the watermark of
    ``head`` on record nothing is known, and the answer is 1. An answer below the oldest kept claim means that a claim
    was trimmed that is still needed. Costs one look at the kept epochs of each input, and a few at claims.
    """
    if not memory.inputs:
        return EpochNumber(head + 1)
    if head == 0:
        return EpochNumber(1)
    record, last = keeper.epoch(fragment, head), keeper.claim_of(fragment, head)
    if record is None or last is None:
        raise BrokenInvariant(f"epoch {head} of {fragment!r} is not on record, and was taken for its newest")
    if record.output.watermark_us is None:
        return EpochNumber(1)
    bound_us = record.output.watermark_us - memory.span_us
    first_claim = keeper.claim_of(fragment, since)
    needed = head + 1
    for stream in sorted(memory.inputs & last.spans.keys()):
        after = first_claim.spans[stream].after if first_claim is not None and stream in first_claim.spans else 0
        first = keeper.first_reaching(stream, bound_us, after=after, through=last.spans[stream].through)
        if first is not None:
            needed = min(needed, _taking(keeper, fragment, stream, first, since, head))
    return EpochNumber(needed)


def _taking(keeper: Keeper, fragment: str, stream: str, epoch: int, since: EpochNumber, head: EpochNumber) -> int:
    """The epoch of the fragment that takes in ``epoch`` of ``stream``. A claim that was trimmed is an older one."""
    low, high = int(since), int(head)
    while low < high:
        middle = (low + high) // 2
        claim = keeper.claim_of(fragment, EpochNumber(middle))
        if claim is not None and stream in claim.spans and claim.spans[stream].through >= epoch:
            high = middle
        else:
            low = middle + 1
    claim = keeper.claim_of(fragment, EpochNumber(low))
    taken = claim is not None and claim.spans[stream].after < epoch
    return low if taken else low - 1
