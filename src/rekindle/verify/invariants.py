"""The invariants of the design, checked over the ledger. Nothing here reads a file or a clock.

Fault model. The keeper's verbs keep these rules; what is looked for is what went past the verbs: a database that was
restored from an old copy, a record that was changed by hand, a defect of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import xxhash

from rekindle.keeper.ledger import Ledger
from rekindle.keeper.records import Claim, Epoch, Incarnation, SafePoint, Span
from rekindle.keeper.rows import canonical
from rekindle.verify.findings import RECORDS, WRONG, Finding

RESTORE = "bring the keeper's database back from a copy, or start a new home"
BY_HAND = "a record never changes: it was changed behind the keeper's back; " + RESTORE
_FILES_DIGEST = re.compile(r"files:(\d+):([0-9a-f]+)\Z")
_FOLDER = re.compile(r"streams/([^/]+)/(\d{12})-(\d+)-\d+/[^/]+\Z")


def check_records(ledger: Ledger) -> list[Finding]:
    """Everything in the records that breaks a rule."""
    return [
        *_damaged(ledger),
        *_lines(ledger),
        *_spans(ledger),
        *_contents(ledger),
        *_safe_points(ledger),
        *_deliveries(ledger),
        *_lives(ledger),
    ]


def _wrong(subject: str, epoch: int, what: str, where: str, hint: str = BY_HAND) -> Finding:
    return Finding(WRONG, RECORDS, subject, epoch, what, where, hint)


def _damaged(ledger: Ledger) -> Iterator[Finding]:
    for record in ledger.damaged:
        where = f"{record.table} of the keeper: {record.detail}"
        yield _wrong(record.subject, record.epoch, record.primary, where)


# -- epochs and claims: dense, and every epoch claimed -----------------------------------------------


def _lines(ledger: Ledger) -> Iterator[Finding]:
    broken = {(d.table, d.subject, int(d.epoch)) for d in ledger.damaged}
    for stream, epochs in sorted(ledger.epochs.items()):
        known = {e.epoch for e in epochs} | {e for table, of, e in broken if (table, of) == ("epochs", stream)}
        yield from _holes(stream, known, "epochs", f"stream {stream!r}", "an epoch was published after a missing one")
    for fragment, claims in sorted(ledger.claims.items()):
        known = {c.epoch for c in claims} | {e for table, of, e in broken if (table, of) == ("claims", fragment)}
        yield from _holes(fragment, known, "claims", f"fragment {fragment!r}", "a claim was made after a missing one")
        yield from _unclaimed(ledger, fragment, known)
    heads: dict[str, dict[str, int]] = {}
    for record in ledger.streams.values():
        heads.setdefault(record.fragment, {})[record.stream] = ledger.head(record.stream)
        for epoch in ledger.epochs.get(record.stream, ()):
            if epoch.fragment != record.fragment:
                what = f"epoch {epoch.epoch} of {record.stream!r} is by fragment {epoch.fragment!r}"
                yield _wrong(record.stream, epoch.epoch, what, f"the stream is one of fragment {record.fragment!r}")
    for fragment, streams in sorted(heads.items()):
        if len(set(streams.values())) > 1:
            what = f"the streams of fragment {fragment!r} do not end at the same epoch"
            yield _wrong(fragment, max(streams.values()), what, ", ".join(f"{s}: {e}" for s, e in streams.items()))
    for stream in sorted(ledger.epochs.keys() - ledger.streams.keys()):
        yield _wrong(stream, 0, f"there are epochs of stream {stream!r}, which is not on record", "streams")


def _holes(subject: str, known: set[int], table: str, whose: str, why: str) -> Iterator[Finding]:
    if not known:
        return
    missing = sorted(set(range(min(known), max(known) + 1)) - known)
    if missing:
        what = f"the {table} of {whose} are not dense: {_ranges(missing)} missing"
        yield _wrong(subject, missing[0], what, f"{why}; kept are {min(known)} to {max(known)}", RESTORE)


def _unclaimed(ledger: Ledger, fragment: str, claimed: set[int]) -> Iterator[Finding]:
    streams = [record.stream for record in ledger.streams.values() if record.fragment == fragment]
    for stream in streams:
        bare = sorted({int(e.epoch) for e in ledger.epochs.get(stream, ())} - claimed)
        if bare:
            what = f"epochs of stream {stream!r} are published and not claimed: {_ranges(bare)}"
            yield _wrong(stream, bare[0], what, f"fragment {fragment!r}", "they cannot be computed again; " + RESTORE)


# -- what claims consume ---------------------------------------------------------------------------------


def _spans(ledger: Ledger) -> Iterator[Finding]:
    owners = {record.stream: record.fragment for record in ledger.streams.values()}
    for fragment, claims in sorted(ledger.claims.items()):
        before: Claim | None = None
        for claim in claims:
            follows = before is not None and before.epoch == claim.epoch - 1
            last = before.spans if before is not None and follows else {}
            for name in sorted(last.keys() - claim.spans.keys()):
                what = f"the claim of epoch {claim.epoch} of {fragment!r} leaves out input {name!r} of the one before"
                yield _wrong(fragment, claim.epoch, what, "claims")
            for name, span in sorted(claim.spans.items()):
                is_stream = owners.get(name, fragment) != fragment
                start: object = last[name].through if name in last else (None if claim.epoch == 1 else span.after)
                if is_stream and start is None:
                    start = span.after  # it may have been trimmed before this fragment came
                if canonical(span.after) != canonical(start):
                    what = f"the claim of epoch {claim.epoch} of {fragment!r} does not start where the one before ended"
                    where = f"input {name!r} starts after {span.after!r}, the one before ended with {start!r}"
                    yield _wrong(fragment, claim.epoch, what, where)
                if is_stream:
                    yield from _stream_span(ledger, claim, name, span)
            before = claim


def _stream_span(ledger: Ledger, claim: Claim, name: str, span: Span) -> Iterator[Finding]:
    what = f"the claim of epoch {claim.epoch} of {claim.fragment!r}"
    if type(span.after) is not int or type(span.through) is not int or span.after < 0 or span.through < span.after:
        yield _wrong(claim.fragment, claim.epoch, f"{what} takes no range of epochs of {name!r}", f"{span}")
        return
    head = ledger.head(name)
    if span.through > head:
        where = f"input {name!r} up to {span.through}, the newest epoch is {head}"
        yield _wrong(claim.fragment, claim.epoch, f"{what} runs ahead of what is published", where)


# -- what epochs contain ---------------------------------------------------------------------------------


def _contents(ledger: Ledger) -> Iterator[Finding]:
    for stream, epochs in sorted(ledger.epochs.items()):
        named: dict[str, int] = {}
        for epoch in epochs:
            yield from _content(stream, epoch)
            for segment in epoch.output.segments:
                other = named.setdefault(segment.path, epoch.epoch)
                if other != epoch.epoch:
                    what = f"epochs {other} and {epoch.epoch} of {stream!r} name the same segment"
                    yield _wrong(stream, epoch.epoch, what, segment.path)


def _content(stream: str, epoch: Epoch) -> Iterator[Finding]:
    output, number = epoch.output, epoch.epoch
    size = sum(segment.bytes for segment in output.segments)
    if size != output.bytes:
        what = f"the bytes of epoch {number} of {stream!r} are not the sum of its segments' bytes"
        yield _wrong(stream, number, what, f"{output.bytes} against {size}")
    rows = digest_rows(output.digest)
    if rows is not None and rows != output.rows:
        what = f"the digest of epoch {number} of {stream!r} is one of {rows} rows, but the epoch has {output.rows}"
        yield _wrong(stream, number, what, output.digest)
    files = _FILES_DIGEST.match(output.digest)
    if files is not None:
        found = xxhash.xxh3_64(" ".join(s.checksum for s in output.segments).encode()).hexdigest()
        if files[2] != found:
            what = f"the digest of epoch {number} of {stream!r} is not that of its segments' checksums"
            yield _wrong(stream, number, what, f"{output.digest}, it must end with {found}")
    for segment in output.segments:
        path = _FOLDER.match(segment.path)
        if path is None or (path[1], int(path[2]), int(path[3])) != (stream, number, epoch.incarnation):
            what = f"a segment of epoch {number} of {stream!r} does not lie in the folder of its epoch and incarnation"
            yield _wrong(stream, number, what, segment.path)


def digest_rows(digest: str) -> int | None:
    """How many rows a digest is of; None for a form that does not tell."""
    parts = digest.removeprefix("files:").split(":")
    return int(parts[0]) if parts[0].isdecimal() and "+" not in digest else None


# -- safe points, deliveries, lives ------------------------------------------------------------------------


def _safe_points(ledger: Ledger) -> Iterator[Finding]:
    for fragment, points in sorted(ledger.safe_points.items()):
        head, before = ledger.head(fragment), 0
        for point in points:
            what = f"the safe point of {fragment!r} at epoch {point.epoch}"
            if not before <= point.built_on < point.epoch:
                where = f"it is built on {point.built_on}, kept before it is {before or 'none'}"
                yield _wrong(fragment, point.epoch, f"{what} breaks the chain of safe points", where)
            if point.epoch > head:
                yield _wrong(fragment, point.epoch, f"{what} is ahead of what is published", f"the newest is {head}")
            before = point.epoch


def _deliveries(ledger: Ledger) -> Iterator[Finding]:
    for delivered in ledger.deliveries:
        head = ledger.head(delivered.stream)
        if delivered.epoch > head:
            what = f"sink {delivered.sink!r} took epoch {delivered.epoch}, which is not published"
            yield _wrong(delivered.sink, delivered.epoch, what, f"the newest of {delivered.stream!r} is {head}")


def _lives(ledger: Ledger) -> Iterator[Finding]:
    nodes = {member.incarnation: member.node for member in ledger.members}
    live: dict[str, list[int]] = {}
    for member in ledger.members:
        if member.state in ("starting", "running"):
            live.setdefault(member.node, []).append(member.incarnation)
    for node, incarnations in sorted(live.items()):
        if len(incarnations) > 1:
            what = f"node {node!r} has {len(incarnations)} live incarnations, all but the newest must be fenced"
            yield _wrong(node, 0, what, ", ".join(map(str, incarnations)))
    for subject, owner in sorted(ledger.owners.items()):
        if owner not in nodes:
            yield _wrong(subject, 0, f"{subject!r} is owned by incarnation {owner}, which never was", "owners")
    for fragment, claims in sorted(ledger.claims.items()):
        yield from _authors(fragment, "claims", claims, nodes)
    for stream, epochs in sorted(ledger.epochs.items()):
        yield from _authors(stream, "epochs", epochs, nodes)
    for fragment, points in sorted(ledger.safe_points.items()):
        yield from _authors(fragment, "safe points", points, nodes)


def _authors(
    subject: str, table: str, records: Sequence[Claim | Epoch | SafePoint], nodes: Mapping[Incarnation, str]
) -> Iterator[Finding]:
    """A node has one live incarnation at a time: once its next one has written, the one before is fenced.

    This goes by the order of epochs alone. Clocks are not asked; so a record that was written after a fence, and
    before the successor's first one, cannot be told from one that was written before the fence.
    """
    current: dict[str, int] = {}
    over: set[int] = set()
    for record in records:
        by, node = record.incarnation, nodes.get(record.incarnation)
        if node is None:
            what = f"epoch {record.epoch} in the {table} of {subject!r} is by incarnation {by}, which never was"
            yield _wrong(subject, record.epoch, what, table)
            continue
        if by in over:
            what = f"incarnation {by} of node {node!r} wrote into the {table} of {subject!r} after it was fenced"
            where = f"epoch {record.epoch}; incarnation {current[node]} had taken its place before"
            yield _wrong(subject, record.epoch, what, where, "report this: a fence did not hold; " + RESTORE)
        elif node in current and current[node] != by:
            over.add(current[node])
        if by not in over:
            current[node] = by


def _ranges(numbers: Iterable[int]) -> str:
    """Such as '3, 7 to 9'."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
