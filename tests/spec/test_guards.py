"""Each guard of the model, against the code: a call on a real keeper that must be refused or must lose, or the test
that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.errors import BrokenInvariant, Fenced, RekindleError, StillNeeded
from rekindle.keeper import Keeper
from rekindle.keeper.records import EpochNumber, Incarnation, Secured, Span
from spec.guards import GUARDS
from tests.keeper.place import Place, epochs, output, stream

N = EpochNumber
ROOT = Path(__file__).parents[2]


class Line:
    """Stream lines has four epochs; counts takes one at a time, has claimed three of them and published two. Sink out
    has taken one epoch of counts, whose safe points are 1 and 2. There is a live incarnation, and a ghost."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.ghost = keeper.enlist("n2", code="")
        self.me = keeper.enlist("n1", code="")
        keeper.fence(self.ghost, "test")
        keeper.record_stream(stream("lines"))
        keeper.record_stream(stream("counts", None, "lines"))
        epochs(keeper, "lines", 4, self.me)
        for epoch in (1, 2, 3):
            self.claim(epoch, epoch - 1, epoch)
        for epoch in (1, 2):
            self.publish(epoch)
            self.safe(epoch, epoch - 1)
        keeper.record_delivery("out", "counts", N(1), by=self.me)

    def claim(self, epoch: int, after: int, through: int, by: Incarnation | None = None) -> Span:
        made = self.keeper.claim("counts", N(epoch), {"lines": Span(after, through)}, by=by or self.me)
        return made.spans["lines"]

    def publish(self, epoch: int, mark: str = "a", by: Incarnation | None = None) -> bool:
        return self.keeper.publish("counts", N(epoch), {"counts": output(mark)}, by=by or self.me).won

    def safe(self, epoch: int, on: int, by: Incarnation | None = None) -> Secured:
        return self.keeper.record_safe_point(
            "counts",
            N(epoch),
            batch=epoch,
            built_on=N(on),
            manifest=f"m{epoch}",
            checksum="c",
            stores=("s",),
            bytes=1,
            by=by or self.me,
        )

    def deliver(self, epoch: int, by: Incarnation | None = None) -> None:
        self.keeper.record_delivery("out", "counts", N(epoch), by=by or self.me)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    place = Place(tmp_path, None)
    yield Line(place.open())
    place.close()


def refuses(error: type[RekindleError], says: str, call: Callable[[Line], object]) -> Callable[[Line], None]:
    def shown(line: Line) -> None:
        with pytest.raises(error, match=says):
            call(line)

    return shown


def fenced(call: Callable[[Line], object]) -> Callable[[Line], None]:
    return refuses(Fenced, "was fenced", call)


def is_so(call: Callable[[Line], bool]) -> Callable[[Line], None]:
    def shown(line: Line) -> None:
        assert call(line)

    return shown


def enlist_fences(line: Line) -> None:
    line.keeper.enlist("n1", code="")
    with pytest.raises(Fenced):
        line.claim(4, 3, 4)


def own_live_stays(line: Line) -> None:
    line.keeper.own("out", by=line.me)
    assert line.keeper.own("out", by=line.keeper.enlist("n3", code="")).incarnation == line.me


def own_succession(line: Line) -> None:
    line.keeper.own("out", by=line.me)
    line.keeper.fence(line.me, "test")
    other = line.keeper.enlist("n3", code="")
    assert line.keeper.own("out", by=other).incarnation == other
    assert line.keeper.owners()["out"].incarnation == other


def publish_once(line: Line) -> None:
    before = line.keeper.epoch("counts", N(2))
    assert not line.publish(2, "other") and line.keeper.epoch("counts", N(2)) == before


def delivery_grows(line: Line) -> None:
    line.deliver(2)
    line.deliver(1)
    assert line.keeper.delivered("out") == 2


def delivery_published(line: Line) -> None:
    line.deliver(2)
    with pytest.raises(BrokenInvariant, match="runs ahead"):
        line.deliver(3)


def trim_sink(line: Line) -> None:
    line.publish(3)
    with pytest.raises(StillNeeded, match="sink 'out'"):
        line.keeper.trim_epochs("counts", N(3), by=line.me)


def retire_pinned(line: Line) -> None:
    line.keeper.pin("counts", N(1), "test")
    assert [p.epoch for p in line.keeper.retire_safe_points("counts", keep=1, by=line.me)] == [1, 2]


def pin_kept(line: Line) -> None:
    line.keeper.retire_safe_points("counts", keep=1, by=line.me)
    with pytest.raises(BrokenInvariant, match="is not a safe point that is kept"):
        line.keeper.pin("counts", N(1), "test")


def trim_head(line: Line) -> None:
    line.keeper.trim_epochs("lines", N(9), by=line.me, gone=["counts"])
    assert line.keeper.oldest("lines") == 4


def trim_pin(line: Line) -> None:
    line.keeper.pin("counts", N(1), "test")
    with pytest.raises(StillNeeded, match="a pinned safe point"):
        line.keeper.trim_epochs("lines", N(3), by=line.me)


def trim_last_claims(line: Line) -> None:
    line.publish(3)
    line.deliver(2)
    line.keeper.trim_epochs("counts", N(3), by=line.me)
    line.keeper.trim_claims("counts", N(3), by=line.me)
    assert [claim.epoch for claim in line.keeper.claims("counts")] == [2, 3]


def trim_claim_of_pin(line: Line) -> None:
    line.publish(3)
    line.deliver(2)
    line.keeper.pin("counts", N(1), "test")
    line.keeper.trim_epochs("counts", N(3), by=line.me)
    with pytest.raises(StillNeeded, match="pinned safe points"):
        line.keeper.trim_claims("counts", N(2), by=line.me)


ON_A_KEEPER: dict[str, Callable[[Line], None]] = {
    "ENLIST_FENCES": enlist_fences,
    "OWN_FENCE": fenced(lambda line: line.keeper.own("out", by=line.ghost)),
    "OWN_LIVE_STAYS": own_live_stays,
    "OWN_SUCCESSION": own_succession,
    "CLAIM_FENCE": fenced(lambda line: line.claim(4, 3, 4, line.ghost)),
    "CLAIM_ONCE": is_so(lambda line: line.claim(3, 2, 4) == Span(2, 3)),
    "CLAIM_NEXT": refuses(BrokenInvariant, "not the fragment's next", lambda line: line.claim(5, 3, 4)),
    "CLAIM_CONTINUES": refuses(BrokenInvariant, "does not start where", lambda line: line.claim(4, 2, 4)),
    "CLAIM_FORWARD": refuses(BrokenInvariant, "runs backwards", lambda line: line.claim(4, 3, 2)),
    "CLAIM_PUBLISHED": refuses(BrokenInvariant, "runs ahead", lambda line: line.claim(4, 3, 5)),
    "PUBLISH_FENCE": fenced(lambda line: line.publish(3, by=line.ghost)),
    "PUBLISH_CLAIMED": refuses(BrokenInvariant, "without a claim", lambda line: line.publish(4)),
    "PUBLISH_NEXT": refuses(BrokenInvariant, "not the next one", lambda line: (line.claim(4, 3, 4), line.publish(4))),
    "PUBLISH_ONCE": publish_once,
    "PUBLISH_REPEATS": is_so(lambda line: line.publish(2)),
    "DELIVERY_FENCE": fenced(lambda line: line.deliver(2, line.ghost)),
    "DELIVERY_GROWS": delivery_grows,
    "DELIVERY_NEXT": refuses(BrokenInvariant, "not the next one", lambda line: line.deliver(3)),
    "DELIVERY_PUBLISHED": delivery_published,
    "SAFE_FENCE": fenced(lambda line: line.safe(3, 2, line.ghost)),
    "SAFE_CHAIN": is_so(lambda line: not line.safe(3, 1).won),
    "SAFE_GROWS": is_so(
        lambda line: len(line.keeper.retire_safe_points("counts", keep=1, by=line.me)) == 1 and not line.safe(1, 2).won
    ),
    "SAFE_CLAIMED": refuses(BrokenInvariant, "nobody claimed", lambda line: line.safe(4, 2)),
    "RETIRE_FENCE": fenced(lambda line: line.keeper.retire_safe_points("counts", keep=1, by=line.ghost)),
    "RETIRE_NEWEST": refuses(
        BrokenInvariant, "always kept", lambda line: line.keeper.retire_safe_points("counts", keep=0, by=line.me)
    ),
    "RETIRE_PINNED": retire_pinned,
    "PIN_KEPT": pin_kept,
    "TRIM_FENCE": fenced(lambda line: line.keeper.trim_epochs("lines", N(2), by=line.ghost)),
    "TRIM_HEAD": trim_head,
    "TRIM_READER": refuses(
        StillNeeded, "fragment 'counts'", lambda line: line.keeper.trim_epochs("lines", N(4), by=line.me)
    ),
    "TRIM_PIN": trim_pin,
    "TRIM_SINK": trim_sink,
    "TRIM_LAST_CLAIMS": trim_last_claims,
    "TRIM_CLAIM_OF_EPOCH": refuses(
        StillNeeded, "epochs of stream 'counts'", lambda line: line.keeper.trim_claims("counts", N(2), by=line.me)
    ),
    "TRIM_CLAIM_OF_PIN": trim_claim_of_pin,
}

IN_A_TEST = {
    "SUPERVISOR_FENCES": "tests/supervisor/test_supervise.py::"
    "test_the_fence_comes_before_the_kill_and_both_before_the_start",
    "ADOPT": "tests/node/test_claims.py::test_who_is_second_works_by_the_claim_on_record",
    "FSYNC": "tests/streams/test_writer.py::test_segments_are_durable_when_they_are_described",
    "OWN_FOLDER": "tests/streams/test_writer.py::test_two_replicas_never_write_to_one_file",
    "SWEEP_ORDER": "tests/node/test_process.py::test_what_is_published_while_the_sweep_looks_stays",
    "COMMIT_AFTER_PUBLISH": "tests/faults/test_steps.py::test_steps_of_a_stateful_fragment",
    "SINK_KEY": "tests/sinks/test_files.py::test_epochs_are_dense_folders_and_a_repeat_changes_nothing",
    "RECORD_AFTER_DELIVERY": "tests/faults/test_steps.py::test_steps_of_ingest_of_a_stateless_fragment_and_of_delivery",
    "STORE_BEFORE_RECORD": "tests/state/test_backup.py::test_without_enough_stores_there_is_no_safe_point",
    "SWEEP_SPARES_NEWER": "tests/state/test_backup.py::test_a_sweep_leaves_alone_what_another_replica_is_shipping",
    "SWEEP_SPARES_NAMED": "tests/state/test_backup.py::"
    "test_retention_keeps_exactly_what_kept_and_pinned_safe_points_need",
    "HORIZON_SAFE": "tests/recovery/test_horizon.py::test_layers_need_what_comes_after_the_oldest_safe_point",
    "HORIZON_IN_HAND": "tests/recovery/test_horizon.py::test_pins_and_replicas_behind_hold_every_policy_back",
    "HORIZON_UNDECIDED": "tests/node/test_trim.py::"
    "test_a_replica_that_has_not_decided_holds_everything_back_and_one_that_waits_nothing",
    "HORIZON_SINK": "tests/node/test_trim.py::test_a_sink_that_is_new_keeps_everything_until_it_has_begun",
    "HORIZON_CLAIM_BEFORE": "tests/recovery/test_horizon.py::"
    "test_a_stream_is_needed_by_its_own_fragment_its_readers_and_its_sinks",
    "RIPE": "tests/node/test_trim.py::test_a_turn_trims_what_an_earlier_one_has_seen_and_every_node_has_answered",
    "RIPE_TWICE": "tests/node/test_trim.py::test_a_turn_trims_what_an_earlier_one_has_seen_and_every_node_has_answered",
    "RIPE_HEARD": "tests/node/test_trim.py::test_a_report_that_comes_while_a_turn_looks_is_waited_for",
}


@pytest.mark.parametrize("name", ON_A_KEEPER)
def test_the_keeper_has_the_guard(line: Line, name: str) -> None:
    ON_A_KEEPER[name](line)


@pytest.mark.parametrize("name", IN_A_TEST)
def test_the_test_that_shows_the_guard_is_there(name: str) -> None:
    file, function = IN_A_TEST[name].split("::")
    assert f"\ndef {function}(" in (ROOT / file).read_text()


def test_every_guard_is_shown() -> None:
    assert ON_A_KEEPER.keys() | IN_A_TEST.keys() == {guard.name for guard in GUARDS}
    assert not ON_A_KEEPER.keys() & IN_A_TEST.keys()
