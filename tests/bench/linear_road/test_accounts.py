"""Balances by log and shelves against a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np

from bench.linear_road.accounts import LOG_MAX, Accounts
from tests.bench.linear_road.traffic import Kept


def epoch(accounts: Accounts, charges: list[tuple[int, int, int]], queries: list[tuple[int, int]]) -> list[int]:
    taken = np.array(charges, dtype=np.int32).reshape(-1, 3).T
    asked = np.array(queries, dtype=np.int32).reshape(-1, 2).T
    balances: list[int] = accounts.epoch(taken, asked).tolist()
    return balances


def test_a_balance_has_the_charges_of_its_second_and_none_after_it() -> None:
    accounts = Accounts(Kept(), 1)
    charges = [(5, 1, 10), (6, 1, 20), (6, 2, 7), (7, 1, 40)]
    queries = [(4, 1), (5, 1), (6, 1), (7, 1), (6, 2), (7, 3)]
    assert epoch(accounts, charges, queries) == [0, 10, 30, 70, 7, 0]
    assert epoch(accounts, [(8, 1, 1)], [(8, 1), (8, 2)]) == [71, 7]
    assert epoch(accounts, [], [(9, 1)]) == [71]


def test_it_is_what_a_dictionary_says_over_many_epochs_and_the_log_stays_short() -> None:
    random, ledger, balances = Random(4), Kept(), dict.fromkeys(range(0, 600, 2), 0)
    for second in range(5 * LOG_MAX):
        charges = [(second, random.randrange(0, 600, 2), random.randrange(1, 300_000)) for _ in range(20)]
        for _, vid, amount in charges:
            balances[vid] += amount
        asked = random.sample(sorted(balances), 10)
        found = epoch(Accounts(ledger, 2), charges, [(second, vid) for vid in asked])
        assert found == [balances[vid] for vid in asked]
        assert len(ledger.entries) <= LOG_MAX
    assert len(ledger.shelves) > 50
