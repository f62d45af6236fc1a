"""Virtual threads: one at a time, in the order of a seed, in a time that passes only when all wait."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tests.simulation.clockwork import Loop, Process, Stuck, VirtualThreading


def run(act: Callable[[Loop, Any], None], seed: int = 1) -> Loop:
    """``act`` as the first thread of a process, until all have ended or wait for good."""
    loop = Loop(Random(seed))
    threads = VirtualThreading(lambda: loop)
    loop.spawn(Process("p"), "first", lambda: act(loop, threads))
    loop.block(100.0)
    loop.unwind()
    return loop


def letters(seed: int) -> str:
    said: list[str] = []

    def act(loop: Loop, threads: Any) -> None:
        def say(letter: str) -> None:
            for _ in range(3):
                said.append(letter)
                loop.give_way()

        for letter in "abc":
            threads.Thread(target=say, args=(letter,)).start()

    run(act, seed)
    return "".join(said)


def test_the_seed_decides_who_is_next() -> None:
    assert letters(1) == letters(1)
    assert len({letters(seed) for seed in range(10)}) > 3
    assert sorted(letters(5)) == sorted("aaabbbccc")


def test_time_passes_when_all_wait_and_only_then() -> None:
    seen: list[float] = []

    def act(loop: Loop, threads: Any) -> None:
        began_s = loop.now_s
        told = threads.Event()

        def tell() -> None:
            loop.sleep(2.0)
            told.set()

        threads.Thread(target=tell).start()
        seen.append(loop.now_s - began_s)
        assert told.wait(5.0)
        seen.append(loop.now_s - began_s)
        assert not threads.Event().wait(3.0)
        seen.append(loop.now_s - began_s)

    assert run(act).failure is None
    assert seen == [0.0, 2.0, 5.0]


def test_a_condition_and_a_lock_do_what_the_real_ones_do() -> None:
    done: list[Any] = []

    def act(loop: Loop, threads: Any) -> None:
        changed = threads.Condition()
        items: list[int] = []

        def put() -> None:
            for item in range(3):
                loop.sleep(1.0)
                with changed:
                    items.append(item)
                    changed.notify_all()

        threads.Thread(target=put).start()
        with changed:
            done.append(changed.wait_for(lambda: len(items) == 3, 10.0))
            done.append(changed.wait_for(lambda: len(items) == 4, 10.0))

    assert run(act).failure is None
    assert done == [True, False]


def test_a_killed_process_does_nothing_more_and_a_held_one_goes_on_later() -> None:
    said: list[str] = []

    def act(loop: Loop, threads: Any) -> None:
        victims = [Process("killed"), Process("held")]

        def count(name: str) -> None:
            for number in range(4):
                said.append(f"{name} {number} at {loop.now_s - 1000:g}")
                loop.sleep(1.0)

        for victim in victims:
            loop.spawn(victim, "counts", lambda victim=victim: count(victim.name))  # type: ignore[misc]
        loop.sleep(1.5)
        loop.kill(victims[0], -9)
        loop.hold(victims[1], True)
        loop.sleep(10.0)
        loop.hold(victims[1], False)
        loop.sleep(0.1)

    assert run(act).failure is None
    assert [line for line in said if "killed" in line] == ["killed 0 at 0", "killed 1 at 1"]
    assert [line for line in said if "held" in line][2:] == ["held 2 at 11.5", "held 3 at 12.5"]


def test_an_exception_in_a_thread_ends_the_schedule() -> None:
    def act(loop: Loop, threads: Any) -> None:
        raise ValueError("nobody caught me")

    assert isinstance(run(act).failure, ValueError)


def test_waiting_for_what_never_comes_is_noticed() -> None:
    loop = Loop(Random(1))
    loop.block(None)
    assert isinstance(loop.failure, Stuck)
    with pytest.raises(Stuck):
        raise loop.failure
    loop.unwind()
