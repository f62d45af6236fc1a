"""Which faults come when: a pure function of the seed. The same seed gives the same schedule, on any machine."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from random import Random

from rekindle.errors import DeclarationError
from rekindle.node.steps import STEPS
from rekindle.verify.faults import KINDS, Fault

EARLIEST, LATEST = 0.1, 0.85
"""Shares of the output: before, not everything has started; after, little is left to go wrong."""


def schedule(seed: int, runs: int, kinds: Sequence[str], *, per_run: int, apart: bool = False) -> list[list[Fault]]:
    """The faults of each run, in their order. Every kind comes about as often as any other, and so does every step.

    ``apart`` gives each run faults of one kind only, the kinds in the order in which they are given.
    """
    chance = Random(seed)
    dealt: list[str] = []
    steps: list[str] = []

    def deal() -> str:
        if not dealt:
            dealt.extend(chance.sample(list(kinds), len(kinds)))
        return dealt.pop()

    def next_step() -> str:
        if not steps:
            steps.extend(chance.sample(STEPS, len(STEPS)))
        return steps.pop()

    found = []
    for run in range(runs):
        times = sorted(EARLIEST + (LATEST - EARLIEST) * chance.random() for _ in range(per_run))
        of_run = [kinds[run % len(kinds)] if apart else deal() for _ in times]
        found.append(
            [
                Fault(kind, at, chance.random(), next_step() if kind == "step" else "")
                for kind, at in zip(of_run, times, strict=True)
            ]
        )
    return found


def parse_kinds(text: str) -> tuple[str, ...]:
    """The kinds of a list such as ``kill-node,step``; DeclarationError says what there is.

    >>> parse_kinds("kill-node, step")
    ('kill-node', 'step')
    """
    named = [name.strip() for name in text.split(",") if name.strip()]
    for name in named:
        if name not in KINDS:
            near = difflib.get_close_matches(name, KINDS, 1)
            there_are = f"there are: {', '.join(KINDS)}"
            raise DeclarationError(
                f"there is no fault {name!r}", hint=f"did you mean {near[0]!r}? {there_are}" if near else there_are
            )
    if not named:
        raise DeclarationError("--faults names no fault", hint=f"there are: {', '.join(KINDS)}")
    return tuple(dict.fromkeys(named))
