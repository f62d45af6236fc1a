"""Executors that are lost are told once."""

from __future__ import annotations

from rekindle.node.executors import Executors


def test_each_loss_is_told_once() -> None:
    there: list[list[str]] = [[], ["a", "b"], ["a", "b"], ["b", "c"], ["b", "c"], []]
    looks = iter(there)
    executors = Executors(lambda: next(looks))
    assert [executors.look() for _ in there] == [[], [], [], ["a"], [], ["b", "c"]]
