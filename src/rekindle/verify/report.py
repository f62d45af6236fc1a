"""What a verification came to: every run, every output, and whether the guarantees hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rekindle.recovery.policy import PRECISE
from rekindle.verify.classify import CONVERGENT, DIVERGENT, GAP, REPEATING, Finding
from rekindle.verify.faults import Injected
from rekindle.verify.trace import Pause

RANK = (
    PRECISE,
    REPEATING,
    GAP,
    f"{GAP} and {REPEATING}",
    CONVERGENT,
    f"{GAP} and {CONVERGENT}",
    DIVERGENT,
    f"{GAP} and {DIVERGENT}",
)
"""From the best verdict to the worst."""


@dataclass(frozen=True, slots=True)
class Output:
    """A published stream or a sink: what it promises, and how its stream recovers."""

    name: str
    kind: str  # stream | sink
    policy: str
    promised: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "policy": self.policy, "promised": self.promised}


@dataclass(frozen=True, slots=True)
class Course:
    """How a run went, in seconds since it started: what was published when, and the longest pause of each output."""

    seconds: float
    arrivals: dict[str, list[float]] = field(default_factory=dict)
    pauses: dict[str, Pause | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run with faults. ``failure`` says why it did not come to its end, empty if it did."""

    number: int
    started_s: float
    faults: tuple[Injected, ...]
    findings: dict[str, Finding]
    course: Course
    failure: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.number,
            "seconds": round(self.course.seconds, 1),
            "failure": self.failure or None,
            "faults": [fault.to_json() for fault in self.faults],
            "findings": {name: finding.to_json() for name, finding in self.findings.items()},
            "longest_pause_s": {
                name: None if pause is None else round(pause.length_s, 3) for name, pause in self.course.pauses.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A whole verification. ``undisturbed`` is the run that all others are compared with; outputs in ``unrepeatable``
    came out differently in a second undisturbed run of the same claims; ``nondeterminism`` are findings of the
    determinism check, in words."""

    pipeline: str
    file: str
    seed: int
    outputs: tuple[Output, ...]
    undisturbed: RunReport
    runs: tuple[RunReport, ...]
    unrepeatable: tuple[str, ...] = ()
    nondeterminism: tuple[str, ...] = ()

    @property
    def faults(self) -> list[Injected]:
        return [fault for run in self.runs for fault in run.faults]

    @property
    def is_precise(self) -> bool:
        """Whether every output was precise in every run, every run came to its end, and some fault really happened."""
        verdicts = {finding.verdict for run in self.runs for finding in run.findings.values()}
        return self.all_ended and self.injected > 0 and verdicts == {PRECISE}

    @property
    def all_ended(self) -> bool:
        return not any(run.failure for run in self.runs)

    @property
    def injected(self) -> int:
        return sum(fault.happened for fault in self.faults)

    @property
    def holds(self) -> bool:
        """Whether every output gave what it promises, every run came to its end, some fault really happened, and the
        determinism check found nothing."""
        return self.all_ended and self.injected > 0 and not self.broken and not self.nondeterminism

    @property
    def broken(self) -> list[tuple[int, Output, Finding]]:
        """The outputs that did not give what they promise, by run."""
        return [
            (run.number, output, run.findings[output.name])
            for run in self.runs
            for output in self.outputs
            if output.name in run.findings and not run.findings[output.name].holds(output.promised)
        ]

    def verdict(self, output: str) -> str:
        """The worst verdict of an output over all runs."""
        found = [run.findings[output].verdict for run in self.runs if output in run.findings]
        return worst(found) if found else "not judged"

    def total(self, output: str, what: str) -> int:
        return sum(getattr(run.findings[output], what) for run in self.runs if output in run.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "file": self.file,
            "seed": self.seed,
            "holds": self.holds,
            "precise": self.is_precise,
            "faults_injected": self.injected,
            "faults_not_injected": len(self.faults) - self.injected,
            "outputs": [
                {**o.to_json(), "verdict": self.verdict(o.name), "repeatable": o.name not in self.unrepeatable}
                for o in self.outputs
            ],
            "nondeterminism": list(self.nondeterminism),
            "undisturbed": self.undisturbed.to_json(),
            "runs": [run.to_json() for run in self.runs],
        }


def worst(verdicts: Sequence[str]) -> str:
    """The worst of several verdicts.

    >>> worst(["precise", "repeating", "precise"])
    'repeating'
    """
    return max(verdicts, key=RANK.index)
