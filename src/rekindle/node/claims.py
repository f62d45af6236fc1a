"""How a fragment comes by its next claim: adopt the one on record, or propose what has been published.

No input ever waits for another: a proposal takes what is there, up to ``rows_max`` rows of each input. An input that
the fragment never claimed before starts with the oldest epoch that is kept of it, on record in the claim.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rekindle.errors import BrokenInvariant, EpochTrimmed
from rekindle.keeper.keeper import Keeper
from rekindle.keeper.records import Claim, Epoch, EpochNumber, Incarnation, Span
from rekindle.node.prescribed import Prescribed, are_published
from rekindle.node.steps import Steps
from rekindle.plan import Fragment

PAGE = 256
EMPTY_MAX = 50  # below supervisor.idle.LOOK_EPOCHS: what waits longer is never taken for idle
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Work:
    """A claim, and the records of the epochs that it takes in."""

    claim: Claim
    inputs: Mapping[str, list[Epoch]]

    @property
    def epoch(self) -> EpochNumber:
        return self.claim.epoch


class Claims:
    """The claims of one fragment, as one replica asks for them, epoch after epoch."""

    def __init__(
        self,
        keeper: Keeper,
        fragment: Fragment,
        incarnation: Incarnation,
        stopping: threading.Event,
        *,
        settle_s: float,
        clock: Callable[[], float],
        steps: Steps | None = None,
        prescribed: Prescribed | None = None,
    ) -> None:
        self._keeper = keeper
        self._fragment = fragment
        self._incarnation = incarnation
        self._stopping = stopping
        self._settle_s = settle_s
        self._clock = clock
        self._steps = steps or Steps()
        self._prescribed = prescribed or Prescribed()
        self._last: Claim | None = None
        self._last_rows = 0
        self._seen = 0

    def next(self, epoch: EpochNumber) -> Work | None:
        """The claim of ``epoch``; waits for input. None when the node is stopping.

        When a fragment with a watermark has had no input for ``settle_s`` since an epoch with rows, an empty epoch
        is claimed, once: what the watermark has closed comes out. It is on record like any other. Input epochs
        without rows are left alone until there are ``EMPTY_MAX`` of them: they would be looked at again each time.
        """
        settle_at = self._clock() + self._settle_s if self._fragment.has_watermark and self._fragment.stateful else None
        if self._last is None or self._last.epoch != epoch - 1:
            self._last = self._keeper.claim_of(self._fragment.name, EpochNumber(epoch - 1)) if epoch > 1 else None
            self._last_rows = self._took(self._last) if self._last is not None else 0
        while not self._stopping.is_set():
            claim = self._keeper.claim_of(self._fragment.name, epoch)
            if claim is None:
                spans = self._proposal(epoch, due=settle_at is not None and self._clock() >= settle_at)
                if spans is not None:
                    self._steps.at("before_claim", self._fragment.name, epoch)
                    claim = self._keeper.claim(self._fragment.name, epoch, spans, by=self._incarnation)
                    self._tell_late_starts(claim)
            if claim is not None:
                inputs = read_claim(self._keeper, claim).inputs
                self._last, self._last_rows = claim, _rows(inputs)
                self._steps.at("after_claim", self._fragment.name, epoch)
                return Work(claim, inputs)
            timeout = WAIT_S
            if settle_at is not None and self._last_rows:
                timeout = max(0.01, min(WAIT_S, settle_at - self._clock()))
            self._seen = self._keeper.wait(self._seen, timeout)
        return None

    def _proposal(self, epoch: EpochNumber, *, due: bool) -> Mapping[str, Span] | None:
        """What to propose now; None to wait. ``due`` says that the input has paused for long enough."""
        prescribed = self._prescribed.of(self._fragment.name, epoch)
        if prescribed is not None:
            return prescribed if are_published(self._keeper, prescribed) else None
        spans, rows, epochs = available(self._keeper, self._fragment, self._last, self._fragment.rows_max)
        return spans if rows or (due and self._last_rows > 0) or epochs >= EMPTY_MAX else None

    def _tell_late_starts(self, claim: Claim) -> None:
        known = self._last.spans if self._last is not None else {}
        for name, span in claim.spans.items():
            if name not in known and span.after:
                self._keeper.event("input_starts_late", claim.fragment, stream=name, epoch=span.after + 1)

    def _took(self, claim: Claim) -> int:
        """How many rows a claim took in. An epoch that was trimmed since counts as one."""
        taken = {name: self._keeper.epochs(name, after=s.after, through=s.through) for name, s in claim.spans.items()}
        trimmed: int = sum(span.through - span.after - len(taken[name]) for name, span in claim.spans.items())
        return _rows(taken) + trimmed


def available(
    keeper: Keeper, fragment: Fragment, last: Claim | None, rows_max: int
) -> tuple[dict[str, Span], int, int]:
    """The spans that can be claimed after ``last``, and how many rows and epochs they hold."""
    spans, total, epochs = {}, 0, 0
    for name in fragment.inputs:
        taken = last.spans.get(name) if last is not None else None
        after = taken.through if taken is not None else max(0, keeper.oldest(name) - 1)
        through, rows = after, 0
        while rows < rows_max:
            page = keeper.epochs(name, after=through, limit=PAGE)
            if page and page[0].epoch != through + 1:
                raise _trimmed(fragment.name, name, through, page[0].epoch)
            for record in page:
                if rows and rows + record.output.rows > rows_max:
                    page = []
                    break
                rows += record.output.rows
                through = record.epoch
            if len(page) < PAGE:
                break
        spans[name] = Span(after, through)
        total += rows
        epochs += through - after
    return spans, total, epochs


def read_claim(keeper: Keeper, claim: Claim) -> Work:
    """The epochs that a claim takes in. Raises BrokenInvariant if they are not all on record."""
    inputs = {}
    for name, span in claim.spans.items():
        records = keeper.epochs(name, after=span.after, through=span.through) if span.through > span.after else []
        if len(records) != span.through - span.after:
            raise BrokenInvariant(
                f"epochs that {claim.fragment} {claim.epoch} claims of stream {name!r} are not on record",
                detail=f"claimed ({span.after}, {span.through}], found {[r.epoch for r in records]}",
            )
        inputs[name] = records
    return Work(claim, inputs)


def _trimmed(fragment: str, stream: str, through: int, oldest: EpochNumber) -> EpochTrimmed:
    return EpochTrimmed(
        f"fragment {fragment!r} has taken stream {stream!r} up to epoch {through}, and what came next was trimmed",
        detail=f"the oldest epoch that is kept is {oldest}",
        hint="it was left out of the pipeline for longer than its input is kept: under a new name it starts with "
        "what is kept",
    )


def _rows(inputs: Mapping[str, list[Epoch]]) -> int:
    return sum(r.output.rows for records in inputs.values() for r in records)
