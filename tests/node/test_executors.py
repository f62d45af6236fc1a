"""Executors that are lost are told once."""

from __future__ import annotations

from rekindle.node.executors import Executors


def test_each_loss_is_told_once() -> None:
    there: list[list[str]] = [[], ["a", "b"], ["a", "b"], ["b", "c"], ["b", "c"], []]
    looks = iter(there)
    executors = Executors(lambda: next(looks))
    assert [executors.look() for _ in there] == [[], [], [], ["a"], [], ["b", "c"]]


def test_one_that_is_just_registering_is_none_yet() -> None:
    seen = iter([["a:1", "b:0"], ["a:1", "b:2"], ["a:1"]])
    executors = Executors(lambda: next(seen))
    assert [executors.look(), executors.look(), executors.look()] == [[], [], ["b:2"]]
