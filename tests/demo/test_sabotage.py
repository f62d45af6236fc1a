"""Each kind of sabotage, made on real files under the eyes of a receiver, gives exactly its own bad verdict."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from rekindle.demo.receiver import Receiver
from rekindle.demo.sabotage import KINDS, sabotage
from rekindle.errors import RekindleError
from rekindle.verify.trace import Verdict, judge


def judged_after(folder: Path, kind: str | None) -> Verdict:
    for epoch in range(5):
        rows = [{"k": 10 * epoch + i, "name": "x", "v": i} for i in range(3 if epoch else 0)]
        (folder / f"epoch={epoch}").mkdir(parents=True)
        content = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        (folder / f"epoch={epoch}" / "part-00000.json").write_bytes(content)
    receiver = Receiver(folder, ("k",), clock=iter(range(100)).__next__)
    receiver.look()
    expected = {o.key: o.content for o in receiver.trace()}
    assert len(expected) == 12
    if kind is not None:
        sabotage(folder, kind)
    receiver.look(thorough=True)
    return judge(receiver.trace(), expected)


def test_without_sabotage_the_verdict_is_good(tmp_path: Path) -> None:
    assert judged_after(tmp_path, None).is_precise


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("lose", {"lost": 1, "withdrawn": 1}),
        ("duplicate", {"duplicated": 1}),
        ("change", {"changed": 1, "withdrawn": 1}),
    ],
)
def test_sabotage_gives_a_bad_verdict(tmp_path: Path, kind: str, damage: dict[str, int]) -> None:
    verdict = judged_after(tmp_path, kind)
    assert not verdict.is_precise
    assert {name: d.rows for name, d in verdict.damages.items() if d.rows} == damage


def test_all_kinds_are_tested() -> None:
    assert set(KINDS) == {"lose", "duplicate", "change"}


def test_there_must_be_something_to_damage(tmp_path: Path) -> None:
    with pytest.raises(RekindleError, match="no row to damage"):
        sabotage(tmp_path, "lose")
