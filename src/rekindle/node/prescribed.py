"""Proposals that are given from outside, so that a run makes the same claims as another one made.

``REKINDLE_CLAIMS`` names a JSON file:

    {"claims": {FRAGMENT: [{INPUT: {"after": ..., "through": ...}, ...}, ...]}, "over": {SOURCE: "/path/of/a/file"}}

The claims of a fragment count from epoch 1. What is prescribed is proposed in place of what there is, as soon as all of
it is published: by the same verb, with the same checks, so that recovery knows nothing of it. After the last one a
source has come to its end, and any other fragment goes on with what there is. A source of which nothing is prescribed
has come to its end once its file is there, if ``over`` names one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Span

VARIABLE = "REKINDLE_CLAIMS"

Spans = Mapping[str, Span]


@dataclass(frozen=True, slots=True)
class Prescribed:
    claims: Mapping[str, Sequence[Spans]] = field(default_factory=dict)
    over: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Prescribed:
        path = environment.get(VARIABLE)
        return Prescribed.read(Path(path)) if path else Prescribed()

    @staticmethod
    def read(path: Path) -> Prescribed:
        record = json.loads(path.read_text())
        claims = {
            fragment: [{name: Span.from_json(span) for name, span in spans.items()} for spans in listed]
            for fragment, listed in record["claims"].items()
        }
        return Prescribed(claims, record["over"])

    def write(self, path: Path) -> None:
        claims = {
            fragment: [{name: span.to_json() for name, span in spans.items()} for spans in listed]
            for fragment, listed in self.claims.items()
        }
        path.write_text(json.dumps({"claims": claims, "over": dict(self.over)}))

    def of(self, fragment: str, epoch: EpochNumber) -> Spans | None:
        """What is prescribed for an epoch."""
        listed = self.claims.get(fragment, ())
        return listed[epoch - 1] if epoch <= len(listed) else None

    def is_over(self, source: str) -> bool:
        """Whether a source of which no more is prescribed has come to its end."""
        return source in self.claims or (source in self.over and Path(self.over[source]).exists())


def are_published(keeper: Keeper, spans: Spans) -> bool:
    """Whether all that a fragment would take in is there."""
    return all(span.through <= span.after or keeper.head(name) >= span.through for name, span in spans.items())
