"""A rehearsal: a warm node computes a few epochs that are published already, and throws the result away.

It starts with an empty state, so what comes out means nothing. But Spark has then built and compiled the fragment's
plan, the JVM has run in everything that an epoch takes, and taking over starts from there.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.keeper.records import EpochNumber, Span
from rekindle.node.claims import Work, read_claim
from rekindle.node.replay import Replay
from rekindle.node.worker import Context
from rekindle.plan import Fragment

EPOCHS = 6


def rehearse(context: Context, fragment: Fragment, enough: Callable[[], bool]) -> bool:
    """Compute the newest epochs, or fewer if it is ``enough``; whether there was something to compute.

    A rehearsal that fails is told, and is no obstacle: whoever takes over cold takes over all the same, and what is
    wrong with an epoch its owner will say.
    """
    scratch = context.home.work / ".scratch" / f"rehearsal-{context.incarnation}" / fragment.name
    try:
        works = _works(context, fragment)
        replay = Replay(context, fragment, scratch)
        replay.run(works, lambda rows, work: replay.write(rows, work).drop(), enough=enough)
        return bool(works)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:500]
        context.keeper.event("rehearsal_failed", fragment.name, reason=reason, incarnation=context.incarnation)
        return True


def _works(context: Context, fragment: Fragment) -> list[Work]:
    """The newest epochs that are published, to be computed once more, as far as their input was not trimmed; none if
    there is none yet."""
    keeper, name = context.keeper, fragment.name
    head = keeper.head(name)
    first = max(1, head - EPOCHS + 1)
    claims = [keeper.claim_of(name, EpochNumber(e)) for e in range(first, head + 1)]
    oldest = {i: keeper.oldest(i) for i in fragment.inputs}
    kept = [c for c in claims if c is not None and all(_is_kept(s, oldest.get(i, 0)) for i, s in c.spans.items())]
    return [read_claim(keeper, claim) for claim in kept]


def _is_kept(span: Span, oldest: int) -> bool:
    return bool(span.through == span.after or span.after + 1 >= oldest)
