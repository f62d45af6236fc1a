"""What a demonstration came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rekindle.supervisor.chains import Moment, moment_to_json
from rekindle.verify.trace import Pause, Verdict


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the verdict says. ``faults`` are reasons for a bad one beside damaged rows."""

    verdict: Verdict
    pause: Pause | None
    pause_before: Pause | None
    moments: tuple[Moment, ...]
    meanwhile: dict[str, int]
    disturbances: tuple[str, ...]
    faults: tuple[str, ...]
    sabotage: str | None

    @property
    def is_good(self) -> bool:
        return self.verdict.is_precise and not self.faults and not self.disturbances

    def to_json(self) -> dict[str, Any]:
        def seconds(pause: Pause | None) -> float | None:
            return None if pause is None else round(pause.length_s, 3)

        died_s = self.moments[0].at_s if self.moments else 0.0
        return {
            "good": self.is_good,
            "verdict": self.verdict.to_json(),
            "longest_pause_s": seconds(self.pause),
            "longest_pause_before_the_kill_s": seconds(self.pause_before),
            "chain": [moment_to_json(moment, died_s) for moment in self.moments],
            "rows_published_by_others_meanwhile": self.meanwhile,
            "disturbances": list(self.disturbances),
            "faults": list(self.faults),
            "sabotage": self.sabotage,
        }
