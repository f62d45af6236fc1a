"""A finding: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

WRONG, NOTE = "wrong", "note"
"""A note is worth knowing, and no reason to call the home wrong: left-overs of a crash, what could not be checked."""

RECORDS, SEGMENTS, LAYERS, RECOMPUTED, DIGESTS = "records", "segments", "layers", "recomputed", "digests"


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject`` is a stream, fragment, sink, node or store; ``epoch`` is 0 where it is not about one.

    ``expected`` and ``found`` are examples of rows that differ.
    """

    level: str
    check: str
    subject: str
    epoch: int
    what: str
    where: str
    hint: str
    expected: Sequence[str] = ()
    found: Sequence[str] = ()


@dataclass(slots=True)
class Checked:
    """One line of the table: how much of ``subject`` was checked in one way, and how many findings there were."""

    check: str
    subject: str
    count: int
    unit: str
    wrong: int = 0
    remark: str = ""


@dataclass(slots=True)
class Report:
    """What was checked, and what was found."""

    checked: list[Checked] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(
        self, check: str, subject: str, count: int, unit: str, findings: Sequence[Finding] = (), remark: str = ""
    ) -> None:
        wrong = sum(finding.level == WRONG for finding in findings)
        self.checked.append(Checked(check, subject, count, unit, wrong, remark))
        self.findings.extend(findings)

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == WRONG]

    def to_json(self) -> dict[str, Any]:
        return {"ok": not self.wrong, "checked": self.checked, "findings": self.findings}
