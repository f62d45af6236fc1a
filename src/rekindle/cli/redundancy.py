"""Redundancy: how many replicas of each fragment, source and sink there are now, of how many that are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.keeper.records import Member, Owner, StreamRecord
from rekindle.recovery.placement import beside

COUNTED = ("computing", "standby")
"""The roles that make a replica count: it computes, or can at once."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica says of itself: 'computing', 'joining', 'standby' or 'waiting', and at which epoch it is.
    'failed' is one that has stopped for good."""

    role: str
    epoch: int
    of: int


@dataclass(frozen=True, slots=True)
class Redundancy:
    """One subject's. ``kind`` is 'fragment', 'source' or 'sink'. ``replicas`` are those of live nodes, by node;
    ``missing`` says of the nodes that are wanted beside them what they do instead. ``owner`` is the node whose
    incarnation owns it, '' if nobody ever did."""

    subject: str
    kind: str
    now: int
    wanted: int
    owner: str
    owner_incarnation: int | None
    owner_live: bool
    replicas: Mapping[str, Replica]
    missing: Mapping[str, str]

    @property
    def whole(self) -> bool:
        return self.now >= self.wanted

    @property
    def text(self) -> str:
        """Such as '2 of 2', or '1 of 2: main.2 is joining'."""
        doing = {node: replica.role for node, replica in self.replicas.items() if replica.role not in COUNTED}
        others = [f"{node} is {what}" for node, what in sorted((doing | dict(self.missing)).items())]
        tail = f": {', '.join(others)}" if others and not self.whole else ""
        return f"{self.now} of {self.wanted}{tail}"


def replicas_of(member: Member) -> dict[str, Replica]:
    """What the last report of a member says of its replicas."""
    said: Mapping[str, Mapping[str, Any]] = member.report.get("replicas") or {}
    failed = member.report.get("failed") or ()
    return {
        subject: Replica(
            "failed" if subject in failed else str(replica["role"]),
            int(replica.get("epoch") or 0),
            int(replica.get("of") or 1),
        )
        for subject, replica in sorted(said.items())
    }


def redundancy(
    members: Iterable[Member],
    live: Collection[int],
    owners: Mapping[str, Owner],
    streams: Mapping[str, StreamRecord],
) -> tuple[Redundancy, ...]:
    """By subject. ``members`` are the newest of each node, ``live`` the incarnations that live: only what these say
    counts, the others tell how many are wanted where nobody is left."""
    known = list(members)
    names = {int(member.incarnation): member.node for member in known}
    said = {member.node: replicas_of(member) for member in known}
    subjects = sorted({subject for replicas in said.values() for subject in replicas})
    found = []
    for subject in subjects:
        there = {m.node: said[m.node][subject] for m in known if m.incarnation in live and subject in said[m.node]}
        speakers = list(there) or [node for node, replicas in said.items() if subject in replicas]
        wanted = max(said[node][subject].of for node in speakers)
        home = speakers[0].partition(".")[0]
        owner = owners.get(subject)
        found.append(
            Redundancy(
                subject=subject,
                kind=_kind(subject, streams),
                now=sum(replica.role in COUNTED for replica in there.values()),
                wanted=wanted,
                owner="" if owner is None else names.get(int(owner.incarnation), ""),
                owner_incarnation=None if owner is None else int(owner.incarnation),
                owner_live=owner is not None and owner.live,
                replicas=there,
                missing={node: _instead(node, known, live) for node in beside(home, wanted) if node not in there},
            )
        )
    return tuple(found)


def _kind(subject: str, streams: Mapping[str, StreamRecord]) -> str:
    inputs = [record.inputs for record in streams.values() if record.fragment == subject]
    if not inputs:
        return "sink"
    return "fragment" if any(inputs) else "source"


def _instead(node: str, members: Iterable[Member], live: Collection[int]) -> str:
    """What a node does that has no replica of what it should have one of."""
    member = next((m for m in members if m.node == node and m.incarnation in live), None)
    if member is None:
        return "not there"
    phase = str(member.report.get("phase") or "starting")
    return "ready, without it" if phase == "ready" else phase
