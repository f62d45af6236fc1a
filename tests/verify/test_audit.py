"""A small home, damaged in one way after the other: each must be found, named, and come with what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.errors import DeclarationError, HomeUnusable
from rekindle.home import create_or_open
from rekindle.keeper import open_keeper
from rekindle.keeper.records import Epoch
from rekindle.load import load_pipeline
from rekindle.verify.audit import Wish
from rekindle.verify.findings import Finding, Report
from tests.node.test_workers import Node
from tests.verify.homes import PIPELINES, Specimen, audit, code
from tests.verify.pipelines.audited import ROWS

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Specimen:
    return Specimen(PIPELINES / "audited.py", tmp_path_factory.mktemp("audited") / "home", spark, ROWS)


@pytest.fixture
def specimen(made: Specimen) -> Specimen:
    made.fresh()
    return made


def only(report: Report) -> Finding:
    """The one finding that says that something is wrong; it says what to do."""
    assert len(report.wrong) == 1, report.wrong
    (finding,) = report.wrong
    assert finding.where and finding.hint
    return finding


def by_hand(specimen: Specimen, statement: str) -> None:
    database = sqlite3.connect(specimen.root / "keeper.db")
    with database:
        assert database.execute(statement).rowcount == 1
    database.close()


def newest(specimen: Specimen, stream: str) -> Epoch:
    with specimen.keeper() as keeper:
        return keeper.heads()[stream]


def contents(root: Path) -> dict[str, bytes]:
    """What an audit must not change: SQLite's index of its log is not part of it."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith("keeper.db-")]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


# -- a sound home --------------------------------------------------------------------------------------


def test_a_sound_home_is_checked_whole_and_left_as_it_is(specimen: Specimen) -> None:
    before = contents(specimen.root)
    report = specimen.audit()
    assert not report.findings, report.findings
    assert contents(specimen.root) == before
    done = {(line.check, line.subject): line for line in report.checked}
    head = newest(specimen, "counts").epoch
    assert head > 2
    assert done["recomputed", "counts"].count == head and done["recomputed", "plain"].count == head
    assert done["digests", "stamped"].count > 0 and "logged" in done["digests", "stamped"].remark
    assert done["digests", "a"].count > 0 and done["layers", "counts"].count > 0
    assert {subject for check, subject in done if check == "segments"} == {"a", "counts", "plain", "stamped"}


def test_a_home_that_is_at_work_is_checked_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "audited.py"
    file.write_text((PIPELINES / "audited.py").read_text().replace("ROWS = 200", "ROWS = 20_000"))
    home = create_or_open(tmp_path / "home", "audited", None)
    keeper, reader = open_keeper(None, home=home), open_keeper(None, home=home, read_only=True)
    node = Node(load_pipeline(file), home, keeper, spark, tmp_path / "empty")
    reports: list[Report] = []
    went_on = False

    def done() -> bool:
        nonlocal went_on
        before = keeper.head("counts")
        if min(before, keeper.head("plain")) > 3 and keeper.safe_point("counts") is not None:
            reports.append(audit(home, reader, Wish(last=3), code(file, home, spark)))
            went_on = keeper.head("counts") > before
        return bool(reports)

    try:
        node.run_until(done)
    finally:
        keeper.close()
        reader.close()
    assert went_on and not reports[0].wrong, reports[0].wrong
    assert {line.subject: line.count for line in reports[0].checked if line.check == "recomputed"} == {
        "counts": 3,
        "plain": 3,
    }


def test_a_part_of_a_home_can_be_checked(specimen: Specimen) -> None:
    report = specimen.audit(Wish(frozenset({"counts"}), last=2))
    done = {(line.check, line.subject): line.count for line in report.checked}
    assert done["recomputed", "counts"] == 2 and not report.findings
    assert done.keys() == {("records", "all"), ("segments", "counts"), ("layers", "counts"), ("recomputed", "counts")}
    with pytest.raises(DeclarationError, match="no stream 'count'"):
        specimen.audit(Wish(frozenset({"count"})))


# -- files ---------------------------------------------------------------------------------------------


def test_a_changed_segment_is_found_where_it_is_and_where_it_goes(specimen: Specimen) -> None:
    segment = newest(specimen, "plain").output.segments[0]
    path = specimen.root / segment.path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    finding = only(specimen.audit(recompute=False))
    assert (finding.check, finding.subject) == ("segments", "plain") and segment.path in finding.where
    assert "checksum" in finding.what and "copy" in finding.hint


def test_an_input_that_is_gone_keeps_epochs_from_being_recomputed(specimen: Specimen) -> None:
    epoch = newest(specimen, "a")
    (specimen.root / epoch.output.segments[0].path).unlink()
    report = specimen.audit(Wish(frozenset({"a", "plain"})))
    found = {(finding.check, finding.subject) for finding in report.wrong}
    assert found == {("segments", "a"), ("recomputed", "plain")}
    (recomputed,) = [finding for finding in report.wrong if finding.check == "recomputed"]
    assert "the file is missing" in recomputed.what and "cannot be computed again" in recomputed.what


def test_files_that_no_record_names_are_noted(specimen: Specimen) -> None:
    left = specimen.root / "streams" / "plain" / "000000000001-1-9"
    left.mkdir()
    (left / "000000000001-00000.parquet").write_bytes(b"x")
    report = specimen.audit(recompute=False)
    assert not report.wrong
    (note,) = report.findings
    assert note.where == "streams/plain/000000000001-1-9" and "no record names" in note.what


def layer(specimen: Specimen, suffix: str) -> Path:
    return sorted((specimen.root / "backup").rglob(f"*{suffix}"))[-1]


def test_a_missing_layer_is_found(specimen: Specimen) -> None:
    gone = layer(specimen, "logs.tar")
    gone.unlink()
    report = specimen.audit(recompute=False)
    assert {f.check for f in report.wrong} == {"layers"}
    finding = report.wrong[0]
    assert gone.name in finding.where and "it is missing" in finding.what and "next layer" in finding.hint


def test_a_corrupt_layer_and_one_that_nobody_refers_to(specimen: Specimen) -> None:
    damaged = layer(specimen, "state-0-0.tar")
    content = bytearray(damaged.read_bytes())
    content[600] ^= 1
    damaged.write_bytes(content)
    stray = damaged.parent.with_name("000000000001-1-abc") / "logs.tar"
    stray.parent.mkdir()
    stray.write_bytes(b"x")
    report = specimen.audit(recompute=False)
    assert report.wrong and all("is not what was stored" in f.what and f.subject == "counts" for f in report.wrong)
    assert [f.where.endswith("000000000001-1-abc/logs.tar") for f in report.findings if f.level == "note"] == [True]


def test_a_manifest_that_is_gone_is_a_safe_point_less(specimen: Specimen) -> None:
    layer(specimen, "manifest.json").unlink()
    report = specimen.audit(recompute=False)
    assert any("cannot be restored" in finding.what for finding in report.wrong)


# -- records -------------------------------------------------------------------------------------------


def test_the_digest_of_an_epoch_that_is_recomputed(specimen: Specimen) -> None:
    epoch = newest(specimen, "counts")
    rows, high, low = epoch.output.digest.split(":")
    where = f"stream = 'counts' AND epoch = {epoch.epoch}"
    by_hand(specimen, f"UPDATE epochs SET digest = '{rows}:{high}:{int(low, 16) ^ 1:x}' WHERE {where}")
    finding = only(specimen.audit(Wish(frozenset({"counts"}), last=1)))
    assert (finding.check, finding.subject, finding.epoch) == ("digests", "counts", epoch.epoch)
    assert epoch.output.digest in finding.where and "record was changed" in finding.hint


def test_the_digest_of_an_epoch_that_cannot_be_recomputed(specimen: Specimen) -> None:
    epoch = newest(specimen, "stamped")
    changed = epoch.output.digest[:-1] + ("0" if epoch.output.digest[-1] != "0" else "1")
    where = f"stream = 'stamped' AND epoch = {epoch.epoch}"
    by_hand(specimen, f"UPDATE epochs SET digest = '{changed}' WHERE {where}")
    finding = only(specimen.audit(Wish(frozenset({"stamped"}))))
    assert (finding.check, finding.epoch) == ("digests", epoch.epoch)


def test_the_span_of_a_claim(specimen: Specimen) -> None:
    spans = json.dumps({"a": {"after": 0, "through": 1}})
    by_hand(specimen, f"UPDATE claims SET spans = '{spans}' WHERE fragment = 'plain' AND epoch = 2")
    report = specimen.audit(Wish(frozenset({"plain"})))
    records = [finding for finding in report.wrong if finding.check == "records"]
    assert [f.epoch for f in records] == [2, 3] or [f.epoch for f in records] == [2]
    assert all("does not start where the one before ended" in finding.what for finding in records)
    (differs,) = [finding for finding in report.wrong if finding.check == "recomputed"]
    assert differs.epoch == 2 and differs.expected and differs.found


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DELETE FROM epochs WHERE stream = 'plain' AND epoch = 2", "not dense: 2 missing"),
        ("DELETE FROM claims WHERE fragment = 'plain' AND epoch = 2", "published and not claimed: 2"),
        ("UPDATE epochs SET rows = rows + 1 WHERE stream = 'plain' AND epoch = 2", "damaged in the keeper"),
        ("UPDATE epochs SET bytes = bytes + 1 WHERE stream = 'plain' AND epoch = 2", "sum of its segments' bytes"),
        ("UPDATE epochs SET incarnation = 9 WHERE stream = 'plain' AND epoch = 2", "which never was"),
        ("UPDATE deliveries SET epoch = epoch + 1 WHERE sink = 'plain_sink'", "which is not published"),
        ("UPDATE owners SET incarnation = 9 WHERE subject = 'a'", "owned by incarnation 9"),
        (
            "UPDATE safe_points SET built_on = epoch WHERE fragment = 'counts' AND epoch ="
            " (SELECT max(epoch) FROM safe_points)",
            "breaks the chain",
        ),
        (
            "UPDATE safe_points SET bytes = bytes + 1 WHERE fragment = 'counts' AND epoch ="
            " (SELECT max(epoch) FROM safe_points)",
            "not what its manifest says",
        ),
        (
            'UPDATE claims SET spans = \'{"a":{"after":0,"through":99}}\' WHERE fragment = \'plain\' AND epoch = 1',
            "runs ahead of what is published",
        ),
        (
            "UPDATE safe_points SET stores = 'x' WHERE fragment = 'counts' AND epoch ="
            " (SELECT max(epoch) FROM safe_points)",
            "damaged in the keeper",
        ),
        ("UPDATE epochs SET digest = 'files:1:ab' WHERE stream = 'a' AND epoch = 1", "its segments' checksums"),
    ],
)
def test_a_record_that_was_changed_by_hand(specimen: Specimen, statement: str, what: str) -> None:
    by_hand(specimen, statement)
    report = specimen.audit(recompute=False)
    assert any(what in finding.what for finding in report.wrong), report.wrong


def test_a_home_without_its_records(specimen: Specimen) -> None:
    (specimen.root / "keeper.db").unlink()
    with pytest.raises(HomeUnusable, match="records are gone"):
        specimen.audit(recompute=False)


# -- code ----------------------------------------------------------------------------------------------


def test_a_file_that_computes_something_else_is_told_with_rows(specimen: Specimen, tmp_path: Path) -> None:
    changed = tmp_path / "audited.py"
    changed.write_text(specimen.file.read_text().replace("FACTOR = 2", "FACTOR = 3"))
    report = specimen.audit(Wish(frozenset({"counts", "plain"})), file=changed)
    finding = only(report)
    assert (finding.check, finding.subject, finding.epoch) == ("recomputed", "counts", 1)
    assert f"so do {newest(specimen, 'counts').epoch - 1} epochs after it" in finding.what
    expected, found = json.loads(finding.expected[0]), json.loads(finding.found[0])
    assert expected["key"] == found["key"] and found["total"] * 2 == pytest.approx(expected["total"] * 3)


def test_a_file_with_another_schema_is_not_compared(specimen: Specimen, tmp_path: Path) -> None:
    changed = tmp_path / "audited.py"
    changed.write_text(specimen.file.read_text().replace('"seq", "key")', '"seq", F.lit(1).alias("key"))'))
    finding = only(specimen.audit(Wish(frozenset({"plain"})), file=changed))
    assert "another schema" in finding.what and "--file" in finding.hint


def test_a_file_that_does_not_build_is_a_finding_beside_the_others(specimen: Specimen, tmp_path: Path) -> None:
    changed = tmp_path / "audited.py"
    changed.write_text(specimen.file.read_text().replace('"seq", "key")', '"seq", "kye")'))
    (specimen.root / newest(specimen, "plain").output.segments[0].path).unlink()
    assert [finding.check for finding in specimen.audit(file=changed).wrong] == ["segments", "recomputed"]


# -- what was trimmed ----------------------------------------------------------------------------------


def test_what_was_trimmed_is_out_of_reach_and_the_rest_starts_from_a_safe_point(specimen: Specimen) -> None:
    with specimen.keeper() as keeper:
        oldest = keeper.safe_points("counts")[0].epoch
        head = keeper.head("counts")
    assert 0 < oldest < head
    database = sqlite3.connect(specimen.root / "keeper.db")
    with database:
        database.execute("DELETE FROM epochs WHERE stream IN ('counts', 'a') AND epoch <= ?", (oldest,))
        database.execute("DELETE FROM claims WHERE fragment IN ('counts', 'a') AND epoch <= ?", (oldest,))
    database.close()
    for stream in ("counts", "a"):
        for folder in sorted((specimen.root / "streams" / stream).iterdir())[:oldest]:
            shutil.rmtree(folder)
    report = specimen.audit(Wish(frozenset({"counts"})))
    assert not report.wrong, report.wrong
    (note,) = report.findings
    assert f"{oldest} epochs of 'counts', 1 to {oldest}, are out of reach" in note.what
    done = {(line.check, line.subject): line for line in report.checked}
    assert done["recomputed", "counts"].count == head - oldest


def test_an_audit_cannot_change_a_record(specimen: Specimen) -> None:
    keeper = open_keeper(None, home=specimen.fresh(), patience_s=0.1, read_only=True)
    try:
        with pytest.raises(Exception, match=r"readonly|cannot be used"):
            keeper.event("x", "y")
    finally:
        keeper.close()
