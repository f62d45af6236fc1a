"""Who is quiet, and when that counts."""

from __future__ import annotations

from rekindle.keeper.records import Incarnation
from rekindle.supervisor.leases import Leases

ONE, TWO = Incarnation(1), Incarnation(2)


def looks(leases: Leases, *looks: tuple[float, int]) -> list[float | None]:
    return [leases.look(now_s, {ONE: beats}) for now_s, beats in looks]


def test_quiet_since_the_beats_moved() -> None:
    leases = Leases(10)
    assert looks(leases, (0, 1), (4, 1), (8, 2), (12, 2)) == [None] * 4
    assert leases.quiet_s(ONE, 12) == 4
    assert leases.quiet_s(TWO, 12) == 0


def test_a_lower_count_is_a_beat_too() -> None:
    leases = Leases(10)
    looks(leases, (0, 7), (4, 3))
    assert leases.quiet_s(ONE, 4) == 0


def test_a_newcomer_starts_when_it_is_first_seen() -> None:
    leases = Leases(10)
    leases.look(0, {ONE: 1})
    leases.look(4, {ONE: 1, TWO: 0})
    assert (leases.quiet_s(ONE, 4), leases.quiet_s(TWO, 4)) == (4, 0)


def test_held_up_for_more_than_half_a_lease() -> None:
    leases = Leases(10)
    assert looks(leases, (0, 1), (5, 1)) == [None, None]  # just half
    assert leases.quiet_s(ONE, 5) == 5
    assert looks(leases, (11, 1)) == [6]
    assert leases.quiet_s(ONE, 11) == 0


def test_start_anew_is_not_a_gap() -> None:
    leases = Leases(10)
    looks(leases, (0, 1), (4, 1))
    leases.start_anew()
    assert leases.quiet_s(ONE, 5) == 0
    assert leases.look(100, {ONE: 1}) is None
    assert leases.quiet_s(ONE, 100) == 0
