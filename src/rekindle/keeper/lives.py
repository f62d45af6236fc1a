"""The lives of nodes: incarnations, their heartbeats, and the fence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from rekindle.errors import BrokenInvariant, Fenced
from rekindle.keeper.records import Incarnation, Member
from rekindle.keeper.rows import LIVE, WANTS, member, writing
from rekindle.keeper.schema import Tables
from rekindle.keeper.tally import Dialect, one_row, rows


class Lives:
    """Statements on the table of incarnations.

    ``hold`` locks the row of a live incarnation (FOR SHARE) until the transaction ends, and every fence
    writes that row: so a fence waits for what its victim has begun, and whatever begins later sees it.
    """

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        table = tables.incarnations
        self._dialect = dialect
        mine = table.c.incarnation == bindparam("by")
        live = table.c.state.in_(LIVE)
        self._state = select(table.c.node, table.c.state, table.c.fenced_why, table.c.fenced_key).where(mine)
        self._hold = self._state.with_for_update(read=True)
        self._insert = insert(table)
        self._supersede = (
            update(table)
            .where(live, table.c.node == bindparam("of"), table.c.incarnation < bindparam("by"))
            .values(state="fenced", fenced_why=bindparam("why"))
        )
        self._present = (
            update(table)
            .where(mine, live)
            .values(host=bindparam("at"), pid=bindparam("process"), pid_started=bindparam("started"))
        )
        self._beat = (
            update(table)
            .where(mine, live)
            .values(beats=table.c.beats + 1, state="running", report=bindparam("said"))
            .returning(table.c.want)
        )
        self._want = update(table).where(mine).values(want=bindparam("what"))
        self._leave = update(table).where(mine, live).values(state="left")
        self._fence = (
            update(table)
            .where(mine, live)
            .values(state="fenced", fenced_why=bindparam("why"), fenced_key=bindparam("call"))
        )
        self._promote = update(table).where(mine, live).values(node=bindparam("to"))
        self._all = select(table).order_by(table.c.incarnation)
        self._live = self._all.where(live)

    def enlist(self, tx: Connection, node: str, code: str, now_s: float) -> Incarnation:
        check = writing(f"an incarnation of node {node!r}")
        # The counter comes first: two processes that enlist one node take turns, and the later fences the earlier.
        number = self._dialect.next(tx, "incarnations")
        row = {
            "incarnation": number,
            "node": check.text("node", node),
            "state": "starting",
            "want": "run",
            "host": "",
            "pid": 0,
            "pid_started": 0,
            "beats": 0,
            "code": check.text("code", code),
            "enlisted_at_s": check.seconds("enlisted_at_s", now_s),
            "report": "{}",
            "fenced_why": "",
            "fenced_key": "",
        }
        tx.execute(self._insert, row)
        tx.execute(self._supersede, {"of": node, "by": number, "why": f"incarnation {number} took its place"})
        self._dialect.announce(tx)
        return Incarnation(number)

    def promote(self, tx: Connection, incarnation: Incarnation, node: str) -> None:
        writing(f"the promotion of incarnation {incarnation}").text("node", node)
        self._dialect.next(tx, "incarnations")  # in turn with those who enlist
        if tx.execute(self._promote, {"by": incarnation, "to": node}).rowcount == 0:
            self._refuse(tx, incarnation)
        for other in self.members(tx, live=True):
            if other.node == node and other.incarnation != incarnation:
                why = f"incarnation {incarnation} took its place"
                tx.execute(self._fence, {"by": other.incarnation, "why": why, "call": ""})
        self._dialect.announce(tx)

    def hold(self, tx: Connection, by: Incarnation) -> None:
        """Make sure that ``by`` is live, and stays so until the end of this transaction. Raises Fenced."""
        self._judge(one_row(tx.execute(self._hold, {"by": by})), by)

    def present(self, tx: Connection, by: Incarnation, host: str, pid: int, pid_started: int) -> None:
        check = writing(f"incarnation {by}")
        values = {
            "by": by,
            "at": check.text("host", host),
            "process": check.whole("pid", pid),
            "started": check.whole("pid_started", pid_started),
        }
        if tx.execute(self._present, values).rowcount == 0:
            self._refuse(tx, by)

    def beat(self, tx: Connection, by: Incarnation, report: Mapping[str, Any]) -> str:
        check = writing(f"the report of incarnation {by}")
        said = check.dump("report", dict(report))
        want = tx.execute(self._beat, {"by": by, "said": said}).scalar_one_or_none()
        if want is None:
            self._refuse(tx, by)
        return check.one_of("want", want, WANTS)

    def want(self, tx: Connection, incarnation: Incarnation, what: str) -> None:
        writing(f"the wish for incarnation {incarnation}").one_of("want", what, WANTS)
        if tx.execute(self._want, {"by": incarnation, "what": what}).rowcount == 0:
            raise _unknown(incarnation)

    def leave(self, tx: Connection, by: Incarnation) -> None:
        if tx.execute(self._leave, {"by": by}).rowcount == 0 and self._row(tx, by) is None:
            raise _unknown(by)
        self._dialect.announce(tx)

    def fence(self, tx: Connection, incarnation: Incarnation, why: str, call: str) -> bool:
        """``call`` is unique to one call of fence: its repeat finds what it did itself, and is True again."""
        if tx.execute(self._fence, {"by": incarnation, "why": why, "call": call}).rowcount == 1:
            self._dialect.announce(tx)
            return True
        row = self._row(tx, incarnation)
        if row is None:
            raise _unknown(incarnation)
        return bool(row["fenced_key"] == call)

    def members(self, connection: Connection, live: bool) -> list[Member]:
        return [member(row) for row in rows(connection.execute(self._live if live else self._all))]

    def _row(self, tx: Connection, by: Incarnation) -> Mapping[str, Any] | None:
        return one_row(tx.execute(self._state, {"by": by}))

    def _refuse(self, tx: Connection, by: Incarnation) -> None:
        self._judge(self._row(tx, by), by)
        raise BrokenInvariant(f"incarnation {by} is live, but could not be written")

    def _judge(self, row: Mapping[str, Any] | None, by: Incarnation) -> None:
        if row is None:
            raise _unknown(by)
        if row["state"] in LIVE:
            return
        if row["state"] == "left":
            raise Fenced(f"incarnation {by} of node {row['node']!r} has left", hint="enlist again")
        if row["state"] != "fenced":
            raise BrokenInvariant(
                f"incarnation {by} of node {row['node']!r} is damaged in the keeper",
                detail=f"state is {row['state']!r}",
            )
        raise Fenced(
            f"incarnation {by} of node {row['node']!r} was fenced",
            detail=str(row["fenced_why"]),
            hint="this process was replaced and must end; nothing that it computes is used",
        )


def _unknown(incarnation: Incarnation) -> BrokenInvariant:
    return BrokenInvariant(f"the keeper never gave out incarnation {incarnation!r}")
