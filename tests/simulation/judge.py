"""Every invariant of the design, checked after every transaction, by what the rows themselves did.

The judge remembers every claim and every epoch that ever was, computes each epoch once more from the claims alone,
and asks the simulated world (the files, the stores, the sinks) whether what a record says is so.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rekindle.node.traits import run_operators
from rekindle.plan import Fragment
from rekindle.recovery import Gap
from rekindle.state.manifest import Manifest, digest_of
from rekindle.streams.segments import checksum
from tests.simulation.books import Change
from tests.simulation.paper import Plan, Row, Session, State, read_rows
from tests.simulation.zoo import Specimen, rows_of

TRIED_AGAIN = {"CANNOT_LOAD_STATE_STORE": ("damage", "layer"), "has no good copy of": ("store", "layer")}
"""Why an epoch may fail, and be tried again, and after which faults: a checkpoint that cannot be read, stores that are
away."""
LIVE = ("starting", "running")
NEVER = ("output_differs", "worker_failed", "node_given_up")
"""Events that nothing in the fault model may bring about."""


class Violation(Exception):
    """The product broke a promise."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")


@dataclass
class Line:
    """What is known of one fragment."""

    fragment: Fragment | None  # None: a source
    claims: list[dict[str, tuple[Any, Any]]] = field(default_factory=list)  # as JSON texts for a source
    rows: list[list[Row]] = field(default_factory=list)
    published_s: list[float] = field(default_factory=list)
    dropped: list[int | None] = field(default_factory=list)
    state: State = field(default_factory=dict)
    max_us: int = 0
    kept_from: int = 1
    claims_from: int = 1
    safe: list[int] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)  # objects of the newest safe point
    records: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # epochs that are kept


class Judge:
    def __init__(
        self,
        specimen: Specimen,
        root: Path,
        stores: Mapping[str, Any],
        now_s: Callable[[], float],
        in_hand: Callable[[str], list[int]],
        happened: Mapping[str, int],
    ) -> None:
        self._happened = happened
        self._specimen = specimen
        self._root = root
        self._stores = stores
        self._now_s = now_s
        self._in_hand = in_hand
        self.lines: dict[str, Line] = {name: Line(None) for name in specimen.limits}
        self.plans: dict[str, Plan] = {}
        for fragment in specimen.analysis.fragments:
            self.lines[fragment.name] = Line(fragment)
            frames: Any = {name: Plan(Session.__new__(Session), (name,)) for name in fragment.inputs}
            plan: Any = run_operators(fragment, frames)
            self.plans[fragment.name] = plan
        self.states: dict[int, str] = {}
        self._nodes: dict[int, str] = {}
        self.owners: dict[str, int] = {}
        self.delivered: dict[str, int] = {}
        self.sinks: dict[str, dict[int, list[Row]]] = defaultdict(dict)
        self.checked = 0

    # -- the records ---------------------------------------------------------------------------------

    def see(self, changes: Sequence[Change]) -> None:
        """What one transaction did."""
        for table, what, before, after in changes:
            self.checked += 1
            getattr(self, f"_{table}")(what, before, after)
        if any(change[0] == "incarnations" for change in changes):
            live = [self._nodes[by] for by, state in self.states.items() if state in LIVE]
            if len(live) > len(set(live)):
                raise Violation("5", f"two live incarnations of one node: {sorted(live)}")

    def _streams(self, what: str, before: Any, after: Any) -> None:
        if what != "insert":
            raise Violation("1", f"the record of a stream was {what}d: {before} {after}")

    def _events(self, what: str, before: Any, after: Any) -> None:
        if what == "insert" and after["kind"] in NEVER:
            raise Violation("events", f"{after['kind']} of {after['subject']}: {after['detail']}")
        if what == "insert" and after["kind"] == "epoch_retried" and not self._is_excused(after["detail"]):
            raise Violation("events", f"an epoch of {after['subject']} failed: {after['detail']}")

    def _is_excused(self, detail: str) -> bool:
        return any(why in detail and self._happened.keys() & kinds for why, kinds in TRIED_AGAIN.items())

    def _incarnations(self, what: str, before: Any, after: Any) -> None:
        if what == "delete":
            raise Violation("5", f"an incarnation was forgotten: {before}")
        if what == "update" and before["state"] not in LIVE and after["state"] != before["state"]:
            raise Violation("5", f"incarnation {after['incarnation']} was {before['state']} and is {after['state']}")
        if what == "insert" and any(number >= after["incarnation"] for number in self.states):
            raise Violation("5", f"incarnation {after['incarnation']} is not new")
        self.states[after["incarnation"]] = after["state"]
        self._nodes[after["incarnation"]] = after["node"]

    def _fence(self, what: str, by: int) -> None:
        if self.states.get(by) not in LIVE:
            raise Violation("5: a fenced replica publishes nothing", f"{what} by {by}, which is {self.states.get(by)}")

    def _owners(self, what: str, before: Any, after: Any) -> None:
        if what == "delete":
            raise Violation("ownership", f"{before} was forgotten")
        self._fence(f"{after['subject']} is owned", after["incarnation"])
        held = self.owners.get(after["subject"])
        if held is not None and held != after["incarnation"] and self.states[held] in LIVE:
            raise Violation(
                "ownership", f"{after['subject']} was taken from {held}, which lives, by {after['incarnation']}"
            )
        self.owners[after["subject"]] = after["incarnation"]

    def _claims(self, what: str, before: Any, after: Any) -> None:
        if what == "update":
            raise Violation("1: a claim never changes", f"{before} became {after}")
        line = self.lines[(after or before)["fragment"]]
        if what == "delete":
            self._claim_goes(before["fragment"], line, before["epoch"])
            return
        name, epoch = after["fragment"], after["epoch"]
        self._fence(f"claim of {name} {epoch}", after["incarnation"])
        if epoch != len(line.claims) + 1:
            raise Violation("2: epochs are dense", f"claim {epoch} of {name} comes after {len(line.claims)}")
        spans = {i: (span["after"], span["through"]) for i, span in json.loads(after["spans"]).items()}
        inputs = line.fragment.inputs if line.fragment is not None else (name,)
        if spans.keys() != set(inputs):
            raise Violation("3", f"claim {epoch} of {name} takes in {sorted(spans)}, its inputs are {sorted(inputs)}")
        for i, (start, through) in spans.items():
            last = line.claims[-1][i][1] if line.claims else (None if line.fragment is None else 0)
            if start != last:
                raise Violation("3: claims are monotone", f"{name} {epoch} takes {i} from {start}, not from {last}")
            if line.fragment is None:
                if through["n"] <= (0 if start is None else start["n"]):
                    raise Violation("3: claims are monotone", f"{name} {epoch} claims {start} to {through}")
            elif not start <= through <= len(self.lines[i].rows):
                raise Violation("3: never ahead of what is published", f"{name} {epoch} takes {i} up to {through}")
        line.claims.append(spans)

    def _epochs(self, what: str, before: Any, after: Any) -> None:
        if what == "update":
            raise Violation("1: an epoch never changes", f"{before} became {after}")
        name, epoch = (after or before)["stream"], (after or before)["epoch"]
        line = self.lines[name]
        if what == "delete":
            self._epoch_goes(name, line, epoch)
            return
        self._fence(f"publication of {name} {epoch}", after["incarnation"])
        if epoch != len(line.rows) + 1:
            raise Violation("2: epochs are dense", f"epoch {epoch} of {name} comes after {len(line.rows)}")
        if epoch > len(line.claims):
            raise Violation("2", f"epoch {epoch} of {name} is published without a claim")
        rows = self._read(after)
        expected = self._recompute(name, line, epoch, after["dropped"])
        if sorted(map(_text, rows)) != sorted(map(_text, expected)):
            raise Violation(
                "7: an epoch can be recomputed from the claims alone",
                f"{name} {epoch} has {rows}, the claims give {expected}",
            )
        line.rows.append(rows)
        line.records[epoch] = after
        line.published_s.append(self._now_s())
        line.dropped.append(after["dropped"])

    def _read(self, record: Mapping[str, Any]) -> list[Row]:
        found: list[Row] = []
        for path, rows, size, checked in json.loads(record["segments"]):
            place = self._root / path
            if not place.exists() or place.stat().st_size != size or checksum(place) != checked:
                raise Violation("6: visible only when durable", f"{path} is not what {record['stream']} says")
            found += read_rows([place])
            if len(found) > record["rows"] or rows == 0:
                raise Violation("6", f"{path} has other rows than its record")
        if len(found) != record["rows"]:
            raise Violation(
                "6", f"{record['stream']} {record['epoch']} has {len(found)} rows, on record {record['rows']}"
            )
        return found

    def _recompute(self, name: str, line: Line, epoch: int, dropped: int | None) -> list[Row]:
        claim = line.claims[epoch - 1]
        if line.fragment is None:
            start, through = claim[name]
            return rows_of(name, 0 if start is None else start["n"], through["n"])
        inputs = {
            i: [row for e in range(start, through) for row in self.lines[i].rows[e]]
            for i, (start, through) in claim.items()
        }
        taken = sum(map(len, inputs.values()))
        if dropped is not None:
            if not isinstance(line.fragment.recovery, Gap):
                raise Violation("gap", f"{name} {epoch} was dropped, and its policy is {line.fragment.recovery}")
            if dropped != taken:
                raise Violation(
                    "gap: what was dropped is on record", f"{name} {epoch}: {taken} rows, on record {dropped}"
                )
            line.state, line.max_us = {}, 0
            return []
        watermark_us = line.max_us
        for rows in inputs.values():
            line.max_us = max([line.max_us, *(row.get("ts", 0) for row in rows)])
        return self.plans[name].compute(lambda leaf: inputs[leaf.paths[0]], line.state, watermark_us)

    # -- trimming ------------------------------------------------------------------------------------

    def _epoch_goes(self, name: str, line: Line, epoch: int) -> None:
        if epoch != line.kept_from:
            raise Violation("4", f"epoch {epoch} of {name} goes before {line.kept_from}")
        age_s = self._now_s() - line.published_s[epoch - 1]
        if age_s < self._specimen.pipeline.settings.retain_s - 5.0:  # clocks may be off by as much
            raise Violation("4", f"epoch {epoch} of {name} goes after {age_s:.1f} s")
        if epoch == len(line.rows):
            raise Violation("4", f"the head of {name} goes")
        for sink in self._specimen.pipeline.sinks.values():
            if sink.stream == name and self.delivered.get(sink.name, 0) < epoch:
                raise Violation("4: nothing that is needed is trimmed", f"{name} {epoch}, not yet in sink {sink.name}")
        for reader, other in self.lines.items():
            if other.fragment is None or name not in other.fragment.inputs:
                continue
            since = self._since(reader, other)
            need = (
                other.claims[since - 1][name][0] + 1
                if since <= len(other.claims)
                else (other.claims[-1][name][1] + 1 if other.claims else 1)
            )
            if epoch >= need:
                raise Violation(
                    "4: nothing that is needed is trimmed",
                    f"{name} {epoch}, which {reader} may compute from again (from its epoch {since} on)",
                )
        line.kept_from = epoch + 1
        del line.records[epoch]

    def _claim_goes(self, name: str, line: Line, epoch: int) -> None:
        if epoch != line.claims_from:
            raise Violation("4", f"claim {epoch} of {name} goes before {line.claims_from}")
        if line.fragment is not None and epoch >= self._since(name, line):
            raise Violation("4: nothing that is needed is trimmed", f"claim {epoch} of {name}")
        if epoch > len(line.rows):
            raise Violation("4", f"claim {epoch} of {name} goes before its epoch is published")
        line.claims_from = epoch + 1

    def _since(self, name: str, line: Line) -> int:
        """The oldest epoch that a replica computes now, or would if it started now."""
        starts = [len(line.rows) + 1, *self._in_hand(name)]
        fragment = line.fragment
        if fragment is not None and fragment.stateful and not isinstance(fragment.recovery, Gap):
            if fragment.recovery.needs_bounded_memory:
                pass  # what it depends on shows in what it publishes
            elif fragment.recovery.layers is not None and line.safe:
                starts.append(line.safe[-1] + 1)
            else:
                starts.append(1)
        return max(1, min(starts))

    # -- safe points and sinks -----------------------------------------------------------------------

    def _safe_points(self, what: str, before: Any, after: Any) -> None:
        if what == "update":
            raise Violation("safe points", f"{before} became {after}")
        line = self.lines[(after or before)["fragment"]]
        if what == "delete":
            if before["epoch"] == line.safe[-1]:
                raise Violation("4", f"the newest safe point of {before['fragment']} goes")
            line.safe.remove(before["epoch"])
            return
        name, epoch = after["fragment"], after["epoch"]
        self._fence(f"safe point of {name} {epoch}", after["incarnation"])
        newest = line.safe[-1] if line.safe else 0
        if after["built_on"] != newest or epoch <= newest:
            raise Violation("safe points are a chain", f"{name} {epoch} is built on {after['built_on']}, not {newest}")
        if epoch > len(line.rows):
            raise Violation("safe points", f"{name} {epoch} is not published")
        self._check_copies(line, after)
        line.safe.append(epoch)

    def _check_copies(self, line: Line, record: Mapping[str, Any]) -> None:
        wanted = line.fragment.recovery.layers if line.fragment is not None else None
        what = f"{record['fragment']} {record['epoch']}"
        holders = json.loads(record["stores"])
        contents = [self._stores[store].held.get(record["manifest"]) for store in holders]
        if wanted is None or len(set(holders)) < wanted.copies:
            raise Violation("a safe point has its copies", f"{what} is in {holders}")
        if any(content is None or digest_of(content) != record["checksum"] for content in contents):
            raise Violation("a safe point has its copies", f"the manifest of {what} is not in all of {holders}")
        manifest = Manifest.from_bytes(contents[0] or b"")
        line.needed = {record["manifest"], *manifest.objects}
        for entry, place in manifest.files.items():
            stores = manifest.objects[place.object].stores
            if len(set(stores)) < wanted.copies:
                raise Violation("a safe point has its copies", f"{entry.path} of {what} is in {stores}")
            for store in stores:
                if (store, place.object) in self._stores[store].harmed:
                    continue  # what a disk did afterwards is not the product's fault
                content = self._stores[store].held.get(place.object, b"")[place.offset : place.offset + entry.bytes]
                if digest_of(content) != entry.checksum:
                    raise Violation("a safe point has its copies", f"{entry.path} of {what} is not in {store}")
                if entry.path.startswith("state/") and not _is_json(content):
                    raise Violation("7", f"{entry.path} of {what} was damaged before it was shipped")

    def removes(self, store: str, name: str) -> None:
        """A store is told to remove an object: the newest safe point of a fragment must not need it."""
        line = self.lines[name.split("/")[0]]
        if name in line.needed:
            raise Violation("7", f"{name} in {store}, which the safe point at {line.safe[-1]} needs, is removed")

    def _deliveries(self, what: str, before: Any, after: Any) -> None:
        if what == "delete":
            raise Violation("deliveries", f"{before} was forgotten")
        sink, epoch = after["sink"], after["epoch"]
        if epoch == 0:
            return
        self._fence(f"delivery of {sink} {epoch}", after["incarnation"])
        if epoch != self.delivered.get(sink, 0) + 1:
            raise Violation("deliveries are in order", f"{sink} {epoch} after {self.delivered.get(sink, 0)}")
        if epoch not in self.sinks[sink]:
            raise Violation("a delivery is recorded after it was made", f"{sink} {epoch}")
        self.delivered[sink] = epoch

    def take(self, sink: str, stream: str, epoch: int, rows: list[Row]) -> bool:
        """A sink is given an epoch; False if it has it already."""
        there = self.sinks[sink]
        if epoch in there:
            if there[epoch] != rows:
                raise Violation("a re-issue is the same", f"{sink} {epoch} had {there[epoch]} and is given {rows}")
            return False
        if epoch != len(there) + 1:
            raise Violation("deliveries are in order", f"sink {sink} is given {epoch} after {len(there)}")
        if epoch > len(self.lines[stream].rows) or self.lines[stream].rows[epoch - 1] != rows:
            raise Violation("a sink gets what was published", f"{sink} {epoch}: {rows}")
        there[epoch] = rows
        return True

    # -- the end -------------------------------------------------------------------------------------

    def lacks(self) -> str:
        """What is still to come, in words; empty if nothing is."""
        for name, limit in self._specimen.limits.items():
            claims = self.lines[name].claims
            if not claims or claims[-1][name][1]["n"] < limit:
                return f"source {name} is claimed up to {claims[-1] if claims else None}, it ends at {limit}"
        for name, line in self.lines.items():
            if len(line.rows) < len(line.claims):
                return f"{name} is published up to {len(line.rows)}, claimed are {len(line.claims)}"
            for i in line.fragment.inputs if line.fragment is not None else ():
                taken = line.claims[-1][i][1] if line.claims else 0
                if any(self.lines[i].rows[taken:]):
                    return f"{name} has taken {i} up to {taken} of {len(self.lines[i].rows)}"
        for sink in self._specimen.pipeline.sinks.values():
            if self.delivered.get(sink.name, 0) < len(self.lines[sink.stream].rows):
                return f"sink {sink.name} has {self.delivered.get(sink.name, 0)} of {sink.stream}"
            expected = self._specimen.expected(sink.stream)
            got = [row for epoch in sorted(self.sinks[sink.name]) for row in self.sinks[sink.name][epoch]]
            if expected is not None and len(got) < len(expected):
                return f"sink {sink.name} has {len(got)} rows of {len(expected)}"
        return ""

    def check_the_end(self) -> None:
        """What every sink has is what an undisturbed run would have given it; what is kept is still what it was."""
        for line in self.lines.values():
            for epoch, record in line.records.items():
                if self._read(record) != line.rows[epoch - 1]:
                    raise Violation("1: an epoch never changes", f"{record}")
        for sink in self._specimen.pipeline.sinks.values():
            got = [row for epoch in sorted(self.sinks[sink.name]) for row in self.sinks[sink.name][epoch]]
            line = self.lines[sink.stream]
            if got != [row for rows in line.rows for row in rows]:
                raise Violation("the end", f"sink {sink.name} has other rows than were published")
            expected = self._specimen.expected(sink.stream)
            if expected is not None and got != expected:
                raise Violation("the end", f"sink {sink.name} has {got}, undisturbed it would have {expected}")


def _text(row: Row) -> str:
    return json.dumps(row, sort_keys=True)


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True
