"""Deliberate defects in the real code. Each is a piece of text in one module, and what takes its place.

A mutant is caught if one of its checks fails: ``simulation`` (tests/simulation), or tests, named as pytest does. The
simulation is asked first, wherever it can notice. A text that is not found exactly once is an error: then the code has
moved on, and the mutant must.
"""

from __future__ import annotations

from dataclasses import dataclass

SIMULATION = "simulation"
MODEL = "tests/keeper/test_model.py::test_the_keeper_does_what_the_model_does[sqlite-40]"
TRIM_MODEL = "tests/node/test_trim_model.py"


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    module: str
    changes: tuple[tuple[str, str], ...]
    checks: tuple[str, ...] = (SIMULATION,)
    seed: int = 0  # where the simulation begins to look
    slow: bool = False  # left out of --quick


def _mutant(name: str, module: str, before: str, after: str, *checks: str, seed: int = 0, slow: bool = False) -> Mutant:
    return Mutant(name, f"rekindle.{module}", ((before, after),), checks or (SIMULATION,), seed, slow)


MUTANTS: tuple[Mutant, ...] = (
    # -- claim and publish
    Mutant(
        "publish overwrites",
        "rekindle.keeper.line",
        (
            (
                'self._insert_epoch = dialect.insert_if_absent(epochs, "stream", "epoch")',
                'self._insert_epoch = epochs.insert().prefix_with("OR REPLACE")',
            ),
            ("if head == epoch - 1:", "if head >= epoch - 1:"),
        ),
    ),
    _mutant(
        "publish does not check the fence",
        "keeper.line",
        "self._lives.hold(tx, by)\n        if tx.execute(self._claimed",
        "if tx.execute(self._claimed",
        seed=120,
    ),
    Mutant(
        "publish does not check density",
        "rekindle.keeper.line",
        (("if head < epoch - 1:", "if False:"), ("if head == epoch - 1:", "if head <= epoch - 1:")),
        ("tests/keeper/test_line.py",),
    ),
    _mutant(
        "publish needs no claim",
        "keeper.line",
        'if tx.execute(self._claimed, {"of": fragment, "at": epoch}).scalar_one_or_none() is None:',
        "if False:",
        MODEL,
    ),
    _mutant(
        "a repeated publish takes itself for the loser",
        "keeper.line",
        "won = won and found.incarnation == by and found.output.segments == output.segments",
        "won = False",
    ),
    _mutant(
        "claim does not check the fence",
        "keeper.line",
        "self._lives.hold(tx, by)\n        near = [",
        "near = [",
        seed=200,
    ),
    _mutant(
        "a claim is not the first that was made",
        "keeper.line",
        "            if found.epoch == epoch:\n                return found\n",
        "            if found.epoch == epoch and found.incarnation == by:\n                return found\n"
        "            if found.epoch == epoch:\n                return Claim(fragment, epoch, spans, by, now_s)\n",
        SIMULATION,
        MODEL,
        seed=110,
    ),
    _mutant(
        "the start of a span is not checked",
        "keeper.line",
        "if canonical(span.after) != canonical(start):",
        "if False:",
        MODEL,
    ),
    _mutant("a claim runs ahead of what is published", "keeper.line", "if span.through > head:", "if False:", MODEL),
    _mutant(
        "positions are not canonical",
        "keeper.rows",
        "json.dumps(value, sort_keys=True,",
        "json.dumps(value, sort_keys=False,",
        "tests/keeper/test_line.py",
        "tests/keeper/test_rows.py",
    ),
    _mutant(
        "a source ignores its claim",
        "node.ingest",
        "return recorded.spans[name]",
        "return Span(after, reader.newest(after, self._declaration.rows_max) or recorded.spans[name].through)",
    ),
    _mutant(
        "a claim takes more than was published of it",
        "node.claims",
        "spans[name] = Span(after, through)",
        "spans[name] = Span(after, through + (1 if rows else 0))",
    ),
    # -- lives, leases, ownership
    _mutant(
        "a delivery is recorded for a fenced node",
        "keeper.notes",
        "self._lives.hold(tx, by)\n        held = one_row(",
        "held = one_row(",
        MODEL,
    ),
    _mutant(
        "a ghost's failures count",
        "keeper.notes",
        "self._lives.hold(tx, by)  # what fails",
        "pass  # what fails",
        "tests/keeper/test_notes.py",
    ),
    _mutant(
        "a new incarnation fences no older one",
        "keeper.lives",
        'tx.execute(self._supersede, {"of": node, "by": number, "why": f"incarnation {number} took its place"})',
        "pass",
        MODEL,
    ),
    _mutant(
        "a promoted node fences nobody",
        "keeper.lives",
        "if other.node == node and other.incarnation != incarnation:",
        "if False:",
        "tests/keeper/test_lives.py",
    ),
    _mutant("a lease is never checked", "supervisor.decide", "if life.quiet_s > limit_s:", "if False:"),
    _mutant(
        "ownership is taken from who lives",
        "keeper.ownership",
        'if state is not None and state["state"] in LIVE:',
        "if False:",
        SIMULATION,
        "tests/keeper/test_ownership.py",
    ),
    # -- delivery
    _mutant(
        "a delivery is recorded before it is made",
        "node.deliver",
        "        writer.deliver(delivery)\n",
        "        context.keeper.record_delivery(self.subject, record.stream, record.epoch, by=context.incarnation)\n"
        "        writer.deliver(delivery)\n",
    ),
    _mutant(
        "a sink starts one epoch late",
        "node.deliver",
        "return EpochNumber(delivered + 1)",
        "return EpochNumber(delivered + 1 + (delivered > 0))",
    ),
    # -- segments
    _mutant(
        "replicas write to one folder",
        "streams.writer",
        'self.folder = self._stream_folder / f"{epoch:012d}-{incarnation}-{attempt}"',
        'self.folder = self._stream_folder / f"{epoch:012d}-1-1"',
    ),
    _mutant(
        "the files of the living are swept",
        "streams.writer",
        "if owner in over and epoch >= head and",
        "if epoch >= head and",
    ),
    _mutant(
        "the digest leaves out a column",
        "streams.digest",
        "for f in schema.fields))",
        "for f in schema.fields[1:]))",
        "tests/streams/test_digest.py",
        slow=True,
    ),
    _mutant(
        "damaged segments are read",
        "streams.segments",
        "if found != segment.checksum:",
        "if False:",
        "tests/streams/test_segments.py",
    ),
    # -- trimming
    _mutant(
        "trimming goes one epoch too far",
        "keeper.records",
        "return EpochNumber(claim.spans[stream].after + 1 if",
        "return EpochNumber(claim.spans[stream].after + 2 if",
    ),
    _mutant(
        "trimming forgets the safe point's own claims",
        "recovery.horizon",
        "return EpochNumber(min(footing.safe) + 1)",
        "return EpochNumber(footing.head + 1)",
    ),
    _mutant(
        "trimming forgets who is behind",
        "recovery.horizon",
        "starts = [_start(policy, footing, depends_on), *footing.in_hand]",
        "starts = [_start(policy, footing, depends_on)]",
        SIMULATION,
        TRIM_MODEL,
        seed=295,
    ),
    _mutant(
        "trimming waits for nobody's report",
        "node.trim",
        "return all(now.heard[by] >= beats + 2 for by, beats in self.beats.items() if by in now.beats)",
        "return True",
        TRIM_MODEL,
    ),
    _mutant(
        "the keeper lets needed epochs go",
        "keeper.trimming",
        '            if needed < before:\n                raise StillNeeded(\n                    f"epochs of',
        '            if False:\n                raise StillNeeded(\n                    f"epochs of',
        "tests/keeper/test_trimming.py",
    ),
    # -- state
    _mutant(
        "a checkpoint stands where it has not committed",
        "state.checkpoint",
        'batch = max(numbered(checkpoint / "commits"), default=-1)',
        'batch = max(numbered(checkpoint / "offsets"), default=-1)',
    ),
    _mutant(
        "a fork leaves the newest state out",
        "state.checkpoint",
        "<= stand.batch + 1, files)",
        "<= stand.batch, files)",
    ),
    _mutant(
        "a fork is shipped before it was read",
        "node.stateful",
        "if self._shipping is not None and epoch > self._first:",
        "if self._shipping is not None:",
        seed=45,
    ),
    _mutant(
        "a safe point is recorded before its copies are there",
        "state.backup",
        "held = self._couriers.deliver(parcels, self._copies)",
        "held = {parcel.name: tuple(self._stores)[: self._copies] for parcel in parcels}",
    ),
    _mutant(
        "one copy fewer than asked for",
        "state.backup",
        "held = self._couriers.deliver(parcels, self._copies)",
        "held = self._couriers.deliver(parcels, 1)",
    ),
    _mutant(
        "safe points are no chain",
        "keeper.safety",
        "if built_on != (newest.epoch if newest is not None else 0):",
        "if False:",
        "tests/keeper/test_safety.py",
    ),
    _mutant(
        "what a kept safe point shares is removed",
        "state.retention",
        "for name in self._names(self._points[epoch])} - wanted",
        "for name in self._names(self._points[epoch])}",
    ),
    _mutant(
        "restore skips a checksum",
        "state.restore",
        "if len(body) != entry.bytes or digest_of(body) != entry.checksum:",
        "if len(body) != entry.bytes:",
        "tests/state/test_restore.py",
    ),
    _mutant(
        "a store that is away fails an epoch",
        "node.shipping",
        "            self._opened = open_stores(self._layers.stores or (str(home.root / HOME_STORE),), home)\n",
        "            self._opened = open_stores(self._layers.stores or (str(home.root / HOME_STORE),), home)\n"
        "            for store in self._opened:\n                store.prepare()\n",
        seed=170,
    ),
    # -- policies
    _mutant(
        "upstream backup replays too little",
        "recovery.memory",
        "bound_us = record.output.watermark_us - memory.span_us",
        "bound_us = record.output.watermark_us",
    ),
    _mutant(
        "a restored state is older than it says",
        "recovery.policy",
        "if now.local is not None and now.local >= (now.safe or 0):",
        "if now.local is not None:",
        "tests/recovery/test_policies.py",
    ),
    _mutant("a gap is not recorded", "node.jump", "dropped=rows)", "dropped=None)"),
    _mutant(
        "a gap that drops nothing leaves no record",
        "node.jump",
        "if epochs or (fragment.stateful and not _is_empty(keeper, name)):",
        "if epochs:",
    ),
    _mutant(
        "a gap counts only the claimed rows of one input",
        "node.jump",
        "for records in work.inputs.values() for record in records)",
        "for records in work.inputs.values() for record in records[:1])",
    ),
    _mutant(
        "a replica forgets the watermark",
        "node.stateful",
        "watermark_us=self._query.watermark_us if self._query is not None else None)",
        "watermark_us=1 << 50)",
    ),
)
