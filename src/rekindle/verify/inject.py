"""Brings about one fault of a trial, and says what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from rekindle.errors import RekindleError
from rekindle.verify.faults import Fault, Injected, NotInjected
from rekindle.verify.trial import Trial

Action = Callable[[Trial, float], str]


def inject(trial: Trial, fault: Fault, known: Mapping[str, Action]) -> Injected:
    """Bring about a fault. Raises RekindleError if the pipeline does not survive it as the model says."""
    since_s = time.time()
    try:
        proof, happened = known[fault.kind](trial, fault.pick), True
    except NotInjected as reason:
        proof, happened = str(reason), False
    return Injected(fault, happened, proof, since_s, time.time())


def plan_steps(faults: Sequence[Fault], heads: Mapping[str, int], sinks: Mapping[str, int]) -> dict[str, Fault]:
    """For each fault of the kind 'step' where it is to happen, in the words of REKINDLE_STEPS: at a stream or, of a
    delivery, at a sink, at the epoch that its share of the output leads to. ``heads`` are the newest epochs of the
    undisturbed run. Raises RekindleError if there is no stream."""
    planned: dict[str, Fault] = {}
    for fault in faults:
        if fault.kind != "step":
            continue
        among = sinks if "delivery" in fault.step else heads
        subjects = sorted(name for name, head in among.items() if head > 1)
        if not subjects:
            subjects = sorted(heads)
        if not subjects:
            raise RekindleError("the pipeline published nothing")
        subject = subjects[min(int(fault.pick * len(subjects)), len(subjects) - 1)]
        head = {**heads, **sinks}[subject]
        epoch = max(1, min(head - 1, 1 + int(fault.at * head)))
        planned[f"kill:{fault.step}:{subject}:{epoch}"] = fault
    return planned
