"""The main line: streams, claims and epochs. Here the invariants of the two write-once verbs are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, or_, select

from rekindle.errors import BrokenInvariant
from rekindle.keeper import rows as records
from rekindle.keeper.lives import Lives
from rekindle.keeper.records import Claim, Epoch, EpochNumber, Incarnation, Output, Published, Span, StreamRecord
from rekindle.keeper.rows import canonical, spans_text, writing
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect, one_row, rows, sole_row

CLAIMS_A_PAGE = 500


class Line:
    """Statements on streams, claims and epochs.

    Rows are only ever inserted. Whoever inserts looks first, and where two look at the same time the
    primary key decides; the loser looks again, and finds the winner's row committed.
    """

    def __init__(self, tables: Tables, dialect: Dialect, lives: Lives) -> None:
        streams, claims, epochs = tables.streams, tables.claims, tables.epochs
        self._lives = lives
        self._dialect = dialect
        self._owners: dict[str, str] = {}  # a stream's record never changes
        self._insert_stream = dialect.insert_if_absent(streams, "stream")
        self._insert_claim = dialect.insert_if_absent(claims, "fragment", "epoch")
        self._insert_epoch = dialect.insert_if_absent(epochs, "stream", "epoch")
        self._stream = select(streams).where(streams.c.stream == bindparam("name"))
        self._streams = select(streams).order_by(streams.c.stream)
        of_fragment = claims.c.fragment == bindparam("of")
        of_stream = epochs.c.stream == bindparam("of")
        self._claim = select(claims).where(of_fragment, claims.c.epoch == bindparam("at"))
        self._claimed = select(claims.c.epoch).where(of_fragment, claims.c.epoch == bindparam("at"))
        self._claims_near = (
            select(claims).where(of_fragment, claims.c.epoch >= bindparam("at") - 1).order_by(claims.c.epoch).limit(2)
        )
        self._first_claim = select(claims).where(of_fragment).order_by(claims.c.epoch).limit(1)
        self._last_claim = select(claims).where(of_fragment).order_by(claims.c.epoch.desc()).limit(1)
        self._claims = (
            select(claims)
            .where(of_fragment, claims.c.epoch > bindparam("past"))
            .order_by(claims.c.epoch)
            .limit(CLAIMS_A_PAGE)
        )
        self._epoch = select(epochs).where(of_stream, epochs.c.epoch == bindparam("at"))
        self._head = select(epochs.c.epoch).where(of_stream).order_by(epochs.c.epoch.desc()).limit(1)
        self._oldest = select(epochs.c.epoch).where(of_stream).order_by(epochs.c.epoch).limit(1)
        self._epochs = (
            select(epochs)
            .where(of_stream, epochs.c.epoch > bindparam("past"), epochs.c.epoch <= bindparam("upto"))
            .order_by(epochs.c.epoch)
            .limit(bindparam("most"))
        )
        latest = epochs.c.event_time_max_us
        self._first_reaching = select(func.min(epochs.c.epoch)).where(
            of_stream,
            epochs.c.epoch > bindparam("past"),
            epochs.c.epoch <= bindparam("upto"),
            or_(latest >= bindparam("time_us"), and_(latest.is_(None), epochs.c.rows > 0)),
        )
        # From one stream's name to the next along the index: heads costs what the streams number, not the epochs.
        each = epochs.alias("each")
        smallest = select(func.min(each.c.stream).label("stream"))
        found = smallest.cte("found", recursive=True)
        next_one = select(func.min(each.c.stream)).where(each.c.stream > found.c.stream).scalar_subquery()
        found = found.union_all(select(next_one).where(found.c.stream.is_not(None)))
        newest = select(func.max(each.c.epoch)).where(each.c.stream == found.c.stream).scalar_subquery()
        self._heads = select(epochs).join(found, epochs.c.stream == found.c.stream).where(epochs.c.epoch == newest)

    # -- streams -----------------------------------------------------------------------------------

    def record_stream(self, tx: Connection, record: StreamRecord) -> StreamRecord:
        tx.execute(self._insert_stream, records.stream_row(record))
        return records.stream(sole_row(tx.execute(self._stream, {"name": record.stream})))

    def streams(self, connection: Connection) -> dict[str, StreamRecord]:
        found = [records.stream(row) for row in rows(connection.execute(self._streams))]
        return {record.stream: record for record in found}

    # -- claim -------------------------------------------------------------------------------------

    def claim(
        self,
        tx: Connection,
        fragment: str,
        epoch: EpochNumber,
        spans: Mapping[str, Span],
        by: Incarnation,
        now_s: float,
    ) -> Claim:
        check = writing(f"the claim of epoch {epoch!r} of fragment {fragment!r}")
        row = {
            "fragment": check.text("fragment", fragment),
            "epoch": check.whole("epoch", epoch, 1),
            "spans": spans_text(check, spans),
            "incarnation": check.whole("incarnation", by, 1),
            "claimed_at_s": check.seconds("claimed_at_s", now_s),
        }
        self._lives.hold(tx, by)
        near = [records.claim(found) for found in rows(tx.execute(self._claims_near, {"of": fragment, "at": epoch}))]
        for found in near:
            if found.epoch == epoch:
                return found
        if near and near[0].epoch > epoch:
            raise BrokenInvariant(f"{check.record} was trimmed", detail=self._kept(tx, fragment))
        before = near[0] if near else None
        if len(near) > 1 or (before.epoch if before is not None else 0) != epoch - 1:
            raise BrokenInvariant(
                f"{check.record} is not the fragment's next", detail=f"its last claim is of {self._last(tx, fragment)}"
            )
        self._check_spans(tx, check.record, fragment, spans, before.spans if before is not None else {})
        if tx.execute(self._insert_claim, row).rowcount == 1:
            self._dialect.announce(tx)
        return records.claim(sole_row(tx.execute(self._claim, {"of": fragment, "at": epoch})))

    def _check_spans(
        self, tx: Connection, what: str, fragment: str, spans: Mapping[str, Span], before: Mapping[str, Span]
    ) -> None:
        missing = sorted(before.keys() - spans.keys())
        if missing:
            raise BrokenInvariant(
                f"{what} leaves out inputs of the last one",
                detail=", ".join(missing),
                hint="was the pipeline changed, or cut in another way? Give the stream a new name or start a new home; "
                "keep=True on an input keeps the cut where it was",
            )
        for name, span in sorted(spans.items()):
            owner = self._owner(tx, name)
            is_stream = owner is not None and owner != fragment
            start = before[name].through if name in before else (self._beginning(tx, name) if is_stream else None)
            if canonical(span.after) != canonical(start):
                raise BrokenInvariant(
                    f"{what} does not start where the last one ended",
                    detail=f"input {name!r} starts after {span.after!r}, it must start after {start!r}",
                )
            if is_stream:
                self._check_stream_span(tx, what, name, span)

    def _beginning(self, tx: Connection, stream: str) -> int:
        """Where a new reader of a stream starts: what was trimmed before it came is not for it."""
        return max(0, self.oldest(tx, stream) - 1)

    def _check_stream_span(self, tx: Connection, what: str, name: str, span: Span) -> None:
        if type(span.after) is not int or type(span.through) is not int or span.after < 0:
            raise BrokenInvariant(f"{what} needs epoch numbers for stream {name!r}", detail=f"not {span}")
        if span.through < span.after:
            raise BrokenInvariant(f"{what} runs backwards on stream {name!r}", detail=f"{span}")
        if span.through > span.after:
            head = self.head(tx, name)
            if span.through > head:
                raise BrokenInvariant(
                    f"{what} runs ahead of what is published",
                    detail=f"input {name!r} up to {span.through}, the newest epoch is {head}",
                )

    def _owner(self, tx: Connection, name: str) -> str | None:
        if name not in self._owners:
            row = one_row(tx.execute(self._stream, {"name": name}))
            if row is None:
                return None
            self._owners[name] = records.stream(row).fragment
        return self._owners[name]

    # -- publish -----------------------------------------------------------------------------------

    def publish(
        self,
        tx: Connection,
        fragment: str,
        epoch: EpochNumber,
        outputs: Mapping[str, Output],
        by: Incarnation,
        now_s: float,
    ) -> Published:
        what = f"epoch {epoch!r} of fragment {fragment!r}"
        proposal = [_epoch_row(fragment, epoch, stream, outputs[stream], by, now_s) for stream in sorted(outputs)]
        if not proposal:
            raise BrokenInvariant(f"{what} has no stream to be published on")
        self._lives.hold(tx, by)
        if tx.execute(self._claimed, {"of": fragment, "at": epoch}).scalar_one_or_none() is None:
            first = self.first_claim(tx, fragment)
            if first is not None and epoch < first.epoch:
                raise BrokenInvariant(
                    f"{what} is published after its claim was trimmed", detail=self._kept(tx, fragment)
                )
            raise BrokenInvariant(
                f"{what} is published without a claim", detail=f"its last claim is of {self._last(tx, fragment)}"
            )
        written = 0
        for row in proposal:
            head = self.head(tx, row["stream"])
            if head < epoch - 1:
                raise BrokenInvariant(
                    f"{what} is not the next one of stream {row['stream']!r}", detail=f"its newest epoch is {head}"
                )
            if head == epoch - 1:
                written += tx.execute(self._insert_epoch, row).rowcount
        if written not in (0, len(proposal)):
            raise BrokenInvariant(f"{what} is there on some of the fragment's streams only", detail=", ".join(outputs))
        if written:
            self._dialect.announce(tx)
        return self._in_force(tx, what, fragment, epoch, outputs, by)

    def _in_force(
        self,
        tx: Connection,
        what: str,
        fragment: str,
        epoch: EpochNumber,
        outputs: Mapping[str, Output],
        by: Incarnation,
    ) -> Published:
        epochs: dict[str, Epoch] = {}
        won = True
        for stream, output in outputs.items():
            found = self.epoch(tx, stream, epoch)
            if found is None or found.fragment != fragment:
                raise BrokenInvariant(
                    f"{what} cannot be published on stream {stream!r}",
                    detail="it was trimmed" if found is None else f"fragment {found.fragment!r} did already",
                )
            epochs[stream] = found
            won = won and found.incarnation == by and found.output.segments == output.segments
        return Published(won, epochs)

    # -- reading -----------------------------------------------------------------------------------

    def claim_of(self, connection: Connection, fragment: str, epoch: EpochNumber) -> Claim | None:
        row = one_row(connection.execute(self._claim, {"of": fragment, "at": epoch}))
        return None if row is None else records.claim(row)

    def first_claim(self, connection: Connection, fragment: str) -> Claim | None:
        row = one_row(connection.execute(self._first_claim, {"of": fragment}))
        return None if row is None else records.claim(row)

    def last_claim(self, connection: Connection, fragment: str) -> Claim | None:
        row = one_row(connection.execute(self._last_claim, {"of": fragment}))
        return None if row is None else records.claim(row)

    def claims(self, connection: Connection, fragment: str, after: int) -> list[Claim]:
        """One page of claims, at most CLAIMS_A_PAGE."""
        return [records.claim(row) for row in rows(connection.execute(self._claims, {"of": fragment, "past": after}))]

    def head(self, connection: Connection, stream: str) -> EpochNumber:
        newest: Any = connection.execute(self._head, {"of": stream}).scalar_one_or_none()
        return _number(f"the newest epoch of stream {stream!r}", newest)

    def oldest(self, connection: Connection, stream: str) -> EpochNumber:
        oldest: Any = connection.execute(self._oldest, {"of": stream}).scalar_one_or_none()
        return _number(f"the oldest epoch of stream {stream!r}", oldest)

    def heads(self, connection: Connection) -> dict[str, Epoch]:
        found = [records.epoch(row) for row in rows(connection.execute(self._heads))]
        return {epoch.stream: epoch for epoch in found}

    def epoch(self, connection: Connection, stream: str, epoch: EpochNumber) -> Epoch | None:
        row = one_row(connection.execute(self._epoch, {"of": stream, "at": epoch}))
        return None if row is None else records.epoch(row)

    def epochs(
        self, connection: Connection, stream: str, after: int, through: int | None, limit: int | None
    ) -> list[Epoch]:
        most = 2**62
        asked = {
            "of": stream,
            "past": after,
            "upto": most if through is None else through,
            "most": most if limit is None else limit,
        }
        return [records.epoch(row) for row in rows(connection.execute(self._epochs, asked))]

    def first_reaching(
        self, connection: Connection, stream: str, time_us: int, after: int, through: int
    ) -> EpochNumber | None:
        asked = {"of": stream, "time_us": time_us, "past": after, "upto": through}
        first: Any = connection.execute(self._first_reaching, asked).scalar_one_or_none()
        if first is None:
            return None
        return EpochNumber(records.reading(f"an epoch of stream {stream!r}").whole("epoch", first, 1))

    def _last(self, tx: Connection, fragment: str) -> str:
        last = self.last_claim(tx, fragment)
        return "none" if last is None else f"epoch {last.epoch}"

    def _kept(self, tx: Connection, fragment: str) -> str:
        first = self.first_claim(tx, fragment)
        return "no claim is kept" if first is None else f"the oldest claim that is kept is of epoch {first.epoch}"


def _number(what: str, found: Any) -> EpochNumber:
    return EpochNumber(0 if found is None else records.reading(what).whole("epoch", found, 1))


def _epoch_row(
    fragment: str, epoch: EpochNumber, stream: str, output: Output, by: Incarnation, now_s: float
) -> dict[str, Any]:
    check = writing(f"epoch {epoch!r} of stream {stream!r}")
    return {
        "stream": check.text("stream", stream),
        "epoch": check.whole("epoch", epoch, 1),
        "fragment": check.text("fragment", fragment),
        **records.output_row(check, output),
        "incarnation": check.whole("incarnation", by, 1),
        "published_at_s": check.seconds("published_at_s", now_s),
    }
