"""The jump of gap recovery: what was claimed and not computed, and all that has come since, is dropped, on record.

Each dropped epoch is published without rows, and says how many rows of its input were dropped. Claims stay dense and
monotone, so whoever reads on notices nothing but missing rows; and whoever computes the stream once more knows where
the state began anew: where there was nothing to drop, an epoch says so that took nothing in.
"""

from __future__ import annotations

from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import EMPTY_DIGEST, EpochNumber, Output
from rekindle.node.claims import Work, available, read_claim
from rekindle.node.worker import Context
from rekindle.plan import Fragment

EVERYTHING = 1 << 62


def jump(context: Context, fragment: Fragment) -> EpochNumber:
    """Drop everything up to the newest input; returns the epoch at which the fragment stands then."""
    keeper, name = context.keeper, fragment.name
    last = keeper.last_claim(name)
    if last is not None and keeper.head(name) < last.epoch:
        _drop(context, read_claim(keeper, last))
    spans, _, epochs = available(keeper, fragment, last, EVERYTHING)
    if epochs or (fragment.stateful and not _is_empty(keeper, name)):
        number = EpochNumber((last.epoch if last is not None else 0) + 1)
        last = keeper.claim(name, number, spans, by=context.incarnation)
        _drop(context, read_claim(keeper, last))
    return keeper.head(name)


def _is_empty(keeper: Keeper, name: str) -> bool:
    """Whether the state after the newest epoch is empty, by the records alone."""
    head = keeper.head(name)
    newest = keeper.epoch(name, head) if head else None
    return newest is None or newest.output.dropped is not None


def _drop(context: Context, work: Work) -> None:
    keeper, name = context.keeper, work.claim.fragment
    rows = sum(record.output.rows for records in work.inputs.values() for record in records)
    output = Output((), 0, 0, EMPTY_DIGEST, dropped=rows)
    if keeper.publish(name, work.epoch, {name: output}, by=context.incarnation).won:
        inputs = {i: [span.after, span.through] for i, span in work.claim.spans.items()}
        keeper.event("gap", name, epoch=work.epoch, rows=rows, inputs=inputs, incarnation=context.incarnation)
