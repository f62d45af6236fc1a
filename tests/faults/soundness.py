"""What must hold of every home after every fault: the invariants of the design, read from the records."""

from __future__ import annotations

import json
from collections import Counter

from rekindle.sinks.files import OWNER
from tests.faults.scene import Ended, Scene


def flaws(
    scene: Scene, *, open_ended: tuple[str, ...] = (), dropped: tuple[str, ...] = (), called: tuple[str, ...] = ()
) -> list[str]:
    """Everything that is wrong with a pipeline that has done all its work. ``open_ended`` streams may be behind, and
    epochs of ``dropped`` ones may have been skipped; ``called`` are the sinks that are no folders."""
    found: list[str] = []
    with scene.keeper() as keeper:
        records, deliveries = keeper.streams(), keeper.deliveries()
        heads = {stream: keeper.head(stream) for stream in records}
        for stream, record in records.items():
            numbers = [epoch.epoch for epoch in keeper.epochs(stream, after=0)]
            if numbers != list(range(1, len(numbers) + 1)):
                found.append(f"the epochs of {stream} are not dense: {numbers}")
            skipped = [e.epoch for e in keeper.epochs(stream, after=0) if e.output.dropped is not None]
            if skipped and stream not in dropped:
                found.append(f"epochs of {stream} were skipped: {skipped}")
            claims = list(keeper.claims(record.fragment))
            if [claim.epoch for claim in claims] != list(range(1, len(claims) + 1)):
                found.append(f"the claims of {record.fragment} are not dense")
            through: dict[str, object] = dict.fromkeys(record.inputs, 0)
            for claim in claims:
                for name, span in claim.spans.items():
                    if name in record.inputs and span.after != through[name]:
                        found.append(f"claim {claim.epoch} of {stream} starts at {span.after}, not at {through[name]}")
                    through[name] = span.through
            for name in record.inputs:
                left = keeper.epochs(name, after=int(str(through[name])))
                if stream not in open_ended and any(epoch.output.rows for epoch in left):  # empty ones may wait
                    found.append(f"{stream} consumed {name} up to {through[name]} of {heads[name]}")
        differing = keeper.events(kinds=["output_differs"])
        found += [f"{event.subject} came out differently: {dict(event.detail)}" for event in differing]
        for sink, (stream, epoch) in deliveries.items():
            if epoch != heads[stream] and stream not in open_ended:
                found.append(f"{sink} has {epoch} epochs of {heads[stream]} of {stream}")
            if sink not in called:
                found += _sink_flaws(scene, sink.removesuffix("_sink"), stream, epoch)
    for segment in (s for stream in records for e in scene.epochs(stream) for s in e.output.segments):
        if not scene.home.inside(segment.path).exists():
            found.append(f"{segment.path} is gone")
    missed = set(scene.faults) - scene.marks()
    found += [f"planned, but never happened: {fault}" for fault in sorted(missed)]
    return found


def _sink_flaws(scene: Scene, name: str, stream: str, delivered: int) -> list[str]:
    folder = scene.folder / "out" / name
    names = sorted(path.name for path in folder.iterdir() if path.name != OWNER)
    found = []
    if names != [f"epoch={number:012d}" for number in range(1, delivered + 1)]:
        found.append(f"the folders of sink {name} are not the epochs 1 to {delivered}: {names}")
    for epoch in scene.epochs(stream):
        file = folder / f"epoch={epoch.epoch:012d}" / "part-00000.json"
        lines = file.read_text().splitlines() if file.exists() else []
        if epoch.epoch <= delivered and len(lines) != epoch.output.rows:
            found.append(f"epoch {epoch.epoch} of {stream} has {epoch.output.rows} rows, {len(lines)} were delivered")
        twice = [line for line, count in Counter(lines).items() if count > 1 and "id" in json.loads(line)]
        found += [f"delivered twice: {line}" for line in twice]
    return found


def assert_done(ended: Ended) -> None:
    """The run ended because nothing was left to do, and nothing failed."""
    assert ended.code == 0 and ended.summary.get("ended") == "idle", str(ended)
