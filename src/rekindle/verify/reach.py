"""What can be computed again, and from which cut: a pure function of the ledger.

An epoch is in reach if its claim is on record, every input epoch that the claim takes in is kept, and there is a cut
before it to start from: the beginning, a safe point, or an epoch that gap recovery dropped (the state is empty there).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import Claim, Epoch, EpochNumber, SafePoint


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch to be computed: its claim, what that takes in, what was published, and whether to compare."""

    claim: Claim
    inputs: dict[str, list[Epoch]]
    published: Epoch
    compared: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """Epochs that follow on each other, computed from one cut: a safe point, or an empty state after ``base``."""

    base: EpochNumber
    point: SafePoint | None
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """``beyond`` are the wanted epochs that are out of reach, with the reason of the oldest."""

    stretches: tuple[Stretch, ...]
    beyond: tuple[EpochNumber, ...]
    why: str

    @property
    def compared(self) -> int:
        return sum(step.compared for stretch in self.stretches for step in stretch.steps)


def reach_of(
    ledger: Ledger,
    fragment: str,
    wanted: range,
    *,
    stateful: bool,
    depends_on: Callable[[EpochNumber], EpochNumber] | None = None,
) -> Reach:
    """How to compute the ``wanted`` epochs of ``fragment`` again. Where there is a choice the least is computed.

    ``depends_on`` is for a state of bounded memory: the oldest epoch that an empty replica must replay after a head.
    """
    usable = ledger.safe_points.get(fragment, ()) if stateful else ()
    published = {e.epoch: e for e in ledger.epochs.get(fragment, ())}
    steps: dict[int, Step] = {}
    why: dict[int, str] = {}
    for claim in ledger.claims.get(fragment, ()):
        record = published.get(claim.epoch)
        if record is None:
            why[claim.epoch] = f"epoch {claim.epoch} is not kept"
            continue
        inputs, lacking = _inputs(ledger, claim)
        if lacking:
            why[claim.epoch] = lacking
        else:
            compared = claim.epoch in wanted and record.output.dropped is None
            steps[claim.epoch] = Step(claim, inputs, record, compared)
    dropped = {e for e, record in published.items() if record.output.dropped is not None}
    cuts: dict[int, SafePoint | None] = dict.fromkeys({0, *dropped}) | {p.epoch: p for p in usable}
    runs: list[tuple[int, list[Step]]] = []
    beyond: list[EpochNumber] = []
    reason = ""
    for number in wanted:
        if number in dropped:
            continue
        base: int | None = number - 1
        if number not in steps:
            base = None
            reason = reason or why.get(number) or f"the claim of epoch {number} is not kept"
        elif runs and runs[-1][1][-1].claim.epoch == number - 1:
            runs[-1][1].append(steps[number])
            continue
        elif stateful:
            base = _cut(number, cuts, steps, depends_on)
            if base is None:
                reason = reason or _no_cut(number, cuts, steps, why)
        if base is None:
            beyond.append(EpochNumber(number))
        else:
            before = [replace(steps[e], compared=False) for e in range(base + 1, number)]
            runs.append((base, [*before, steps[number]]))
    stretches = (Stretch(EpochNumber(base), cuts.get(base), tuple(run)) for base, run in runs)
    return Reach(tuple(stretches), tuple(beyond), reason)


def _inputs(ledger: Ledger, claim: Claim) -> tuple[dict[str, list[Epoch]], str]:
    inputs: dict[str, list[Epoch]] = {}
    for name, span in claim.spans.items():
        if name not in ledger.streams or type(span.after) is not int or type(span.through) is not int:
            return {}, f"what epoch {claim.epoch} takes of {name!r} is not a range of epochs on record"
        kept = ledger.epochs.get(name, ())
        first = kept[0].epoch if kept else 0
        near = kept[max(0, span.after + 1 - first) : max(0, span.through + 1 - first)]  # holes only shift to the left
        found = [e for e in near if span.after < e.epoch <= span.through]
        if len(found) != span.through - span.after:
            missing = f"epochs {span.after + 1} to {span.through} of its input {name!r}"
            return {}, f"{missing} are not all kept (the oldest that is kept is {ledger.oldest(name)})"
        inputs[name] = found
    return inputs, ""


def _cut(
    number: int,
    cuts: Mapping[int, SafePoint | None],
    steps: Mapping[int, Step],
    depends_on: Callable[[EpochNumber], EpochNumber] | None,
) -> int | None:
    """The newest cut before an epoch from which every epoch up to it is in reach."""
    at = number
    while at in steps and steps[at].published.output.dropped is None:
        if at - 1 in cuts:
            return at - 1
        at -= 1
    if depends_on is None:
        return None
    since = depends_on(EpochNumber(number - 1))
    return since - 1 if all(e in steps for e in range(since, number)) else None


def _no_cut(number: int, cuts: dict[int, SafePoint | None], steps: dict[int, Step], why: dict[int, str]) -> str:
    at = number
    while at in steps:
        at -= 1
    points = sorted(cut for cut, point in cuts.items() if point is not None)
    lacking = why.get(at) or f"the claim of epoch {at} is not kept"
    return f"its state cannot be rebuilt: {lacking}; safe points are kept at {points or 'no epoch'}"
