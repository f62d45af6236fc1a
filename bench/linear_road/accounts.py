"""The toll assessment, by numpy: what each car of a part was charged, for balances at the end of any second.

What an epoch charges is appended to a log. A long log is folded into shelves of balances by VID. So an epoch writes as
much as it charges, and a query reads the log and one shelf. Here is no Spark: state is bytes, through a ``Ledger``.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

SHELVES = 128
LOG_MAX = 16


class Ledger(Protocol):
    def log(self) -> list[bytes]: ...

    def append(self, entry: bytes) -> None: ...

    def clear_log(self) -> None: ...

    def shelf(self, number: int) -> bytes | None: ...

    def put_shelf(self, number: int, value: bytes) -> None: ...


class Accounts:
    def __init__(self, ledger: Ledger, parts: int) -> None:
        self._ledger = ledger
        self._parts = parts

    def epoch(self, charges: Ints, queries: Ints) -> Longs:
        """Take in the charges (rows time, vid, amount) of an epoch; returns the balance of each query (rows time, vid),
        with all charges up to its second."""
        log = self._ledger.log()
        balances = self._balances(log, charges, queries)
        if charges.shape[1]:
            entry = np.ascontiguousarray(charges[1:]).tobytes()
            if len(log) < LOG_MAX:
                self._ledger.append(entry)
            else:
                self._fold([*log, entry])
        return balances

    def _balances(self, log: list[bytes], charges: Ints, queries: Ints) -> Longs:
        time, vid = queries.astype(np.int64)
        before = _joined(log)
        logged, now = before[:, np.isin(before[0], vid)], charges[:, np.isin(charges[1], vid)].astype(np.int64)
        keys = np.concatenate([logged[0].astype(np.int64) << 32, (now[1] << 32) + now[0] + 1])
        order = np.argsort(keys, kind="stable")
        sums = np.concatenate([[0], np.cumsum(np.concatenate([logged[1].astype(np.int64), now[2]])[order])])
        first = np.searchsorted(keys[order], vid << 32, "left")
        found: Longs = sums[np.searchsorted(keys[order], (vid << 32) + time + 1, "right")] - sums[first]
        shelves = self._shelf_of(vid)
        for number in np.unique(shelves).tolist():
            asked = shelves == number
            vids, amounts = _numbers(self._ledger.shelf(number))
            at = np.minimum(np.searchsorted(vids, vid[asked]), max(0, len(vids) - 1))
            if len(vids):
                found[asked] += np.where(vids[at] == vid[asked], amounts[at], 0)
        return found

    def _fold(self, log: list[bytes]) -> None:
        entries = _joined(log)
        shelves = self._shelf_of(entries[0])
        order = np.argsort(shelves, kind="stable")
        entries, shelves = entries[:, order], shelves[order]
        numbers, starts = np.unique(shelves, return_index=True)
        for number, more in zip(numbers.tolist(), np.split(entries, starts[1:], axis=1), strict=True):
            both = np.concatenate([_numbers(self._ledger.shelf(number)), more], axis=1)
            vids, of = np.unique(both[0], return_inverse=True)
            totals = np.zeros(len(vids), np.int64)
            np.add.at(totals, of, both[1])
            self._ledger.put_shelf(number, np.stack([vids, totals]).astype(np.int32).tobytes())
        self._ledger.clear_log()

    def _shelf_of(self, vid: Ints | Longs) -> Ints | Longs:
        return vid // self._parts % SHELVES


def _numbers(said: bytes | None) -> Ints:
    return np.frombuffer(said or b"", dtype=np.int32).reshape(2, -1)


def _joined(log: list[bytes]) -> Ints:
    return np.concatenate([_numbers(entry) for entry in log], axis=1) if log else _numbers(None)
