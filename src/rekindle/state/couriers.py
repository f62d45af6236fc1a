"""Couriers: one for each store, who work at the same time, so that a store that is slow or away holds up no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from rekindle.state.stores import Store, StoreFailed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a store is asked again, and how long one that is away is left alone (doubling).

    One that has not moved for ``patience_s`` counts as away.
    """

    attempts: int = 3
    pause_s: float = 0.1
    away_s: float = 1.0
    away_s_max: float = 30.0
    patience_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Parcel:
    """An object to be stored. ``rotation`` spreads parcels over the stores; ``chunks`` starts its content anew."""

    name: str
    size: int
    rotation: int
    chunks: Callable[[], Iterator[bytes]]


class TooFewStores(Exception):
    """Fewer stores can be used now than there shall be copies."""


@dataclass(slots=True)
class _Courier:
    store: Store
    away_until: float | None = None
    pause_s: float = 0.0
    busy: threading.Thread | None = None
    moved_at: float = 0.0
    returned: bool = True  # what it holds was not looked at yet


@dataclass(slots=True)
class _Answers:
    by_store: dict[str, object] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)


class Couriers:
    """``tell`` is called with an event's kind, the store's name and the reason; ``closing`` cuts pauses short."""

    def __init__(
        self,
        stores: Sequence[Store],
        retry: Retry,
        tell: Callable[[str, str, str], None],
        closing: threading.Event,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._couriers = [_Courier(store) for store in stores]
        self._retry = retry
        self._tell = tell
        self._closing = closing
        self._monotonic = monotonic

    def deliver(self, parcels: Sequence[Parcel], copies: int) -> dict[str, tuple[str, ...]]:
        """Store each parcel in ``copies`` stores; returns which. Raises TooFewStores, and what a parcel raises."""
        held: dict[str, list[str]] = {parcel.name: [] for parcel in parcels}
        failed: set[str] = set()  # in this delivery, so that it ends however short the pauses are
        while True:
            loads = self._loads(parcels, copies, held, failed)
            if not loads:
                return {name: tuple(sorted(stores)) for name, stores in held.items()}
            tasks = {name: self._carrying(store, load, held) for name, (store, load) in loads.items()}
            failed |= tasks.keys() - self.ask(tasks).keys()

    def ask(self, tasks: Mapping[str, Callable[[], T]]) -> dict[str, T]:
        """Do one task for each store named, all at once; returns the answers of those that did not fail."""
        answers = _Answers()
        couriers = {c.store.name: c for c in self._couriers if c.store.name in tasks}
        for name, courier in couriers.items():
            thread = threading.Thread(
                target=_work, args=(name, tasks[name], answers), name=f"rekindle-store-{name}", daemon=True
            )
            courier.busy, courier.moved_at = thread, self._monotonic()
            thread.start()
        with answers.changed:
            while left := [self._left_s(c) for n, c in couriers.items() if n not in answers.by_store]:
                if max(left) <= 0:
                    break
                answers.changed.wait(max(left))
            found = dict(answers.by_store)
        good: dict[str, T] = {}
        raised: BaseException | None = None
        for name, courier in couriers.items():
            if name in found:
                courier.busy = None
            answer = found.get(name, StoreFailed(name, f"did not move for {self._retry.patience_s:g} s"))
            if isinstance(answer, StoreFailed):
                self._lost(courier, str(answer))
            elif isinstance(answer, BaseException):
                raised = answer
            else:
                self._back(courier)
                good[name] = answer  # type: ignore[assignment]
        if raised is not None:
            raise raised
        return good

    def usable(self) -> list[Store]:
        """The stores that are not away, or have been for so long that they are asked again."""
        return [c.store for c in self._couriers if self._usable(c)]

    def returned(self) -> list[Store]:
        """Usable stores whose holdings were not looked at since they were opened, or came back."""
        return [c.store for c in self._couriers if c.returned and self._usable(c)]

    def looked_at(self, names: Sequence[str]) -> None:
        for courier in self._couriers:
            if courier.store.name in names:
                courier.returned = False

    def pause_s(self) -> float:
        """After which time to ask again a store that is away."""
        times = [c.away_until for c in self._couriers if c.away_until is not None]
        return max(min(times, default=self._monotonic()) - self._monotonic(), self._retry.pause_s)

    def _loads(
        self, parcels: Sequence[Parcel], copies: int, held: Mapping[str, list[str]], failed: set[str]
    ) -> dict[str, tuple[Store, list[Parcel]]]:
        loads: dict[str, tuple[Store, list[Parcel]]] = {}
        count = len(self._couriers)
        for parcel in parcels:
            lacking = max(0, copies - len(held[parcel.name]))
            ring = [self._couriers[(parcel.rotation + step) % count] for step in range(count)]
            there = [c.store for c in ring if self._usable(c) and c.store.name not in failed]
            free = [store for store in there if store.name not in held[parcel.name]]
            if len(free) < lacking:
                away = [c.store.name for c in self._couriers if c.store not in there]
                raise TooFewStores(f"{copies} copies are wanted, and these stores are away: {', '.join(away)}")
            for store in free[:lacking]:
                loads.setdefault(store.name, (store, []))[1].append(parcel)
        return loads

    def _carrying(self, store: Store, load: Sequence[Parcel], held: Mapping[str, list[str]]) -> Callable[[], None]:
        (courier,) = (c for c in self._couriers if c.store is store)

        def carry() -> None:
            for parcel in load:
                self.patiently(partial(self._put, courier, parcel))
            for folder in sorted({parcel.name.rpartition("/")[0] for parcel in load}):
                self.patiently(partial(store.settle, folder))
            for parcel in load:
                held[parcel.name].append(store.name)

        return carry

    def patiently(self, act: Callable[[], T]) -> T:
        """Ask a store a few times, with pauses."""
        pause_s = self._retry.pause_s
        for left in range(self._retry.attempts - 1, -1, -1):
            try:
                return act()
            except StoreFailed:
                if left == 0:
                    raise
            if self._closing.wait(pause_s):
                return act()
            pause_s *= 2
        raise ValueError("a store is asked at least once")

    def _put(self, courier: _Courier, parcel: Parcel) -> None:
        def moving() -> Iterator[bytes]:
            for chunk in parcel.chunks():
                courier.moved_at = self._monotonic()
                yield chunk

        courier.store.put(parcel.name, moving(), parcel.size)

    def _left_s(self, courier: _Courier) -> float:
        return courier.moved_at + self._retry.patience_s - self._monotonic()

    def _usable(self, courier: _Courier) -> bool:
        if courier.busy is not None and courier.busy.is_alive():
            return False
        return courier.away_until is None or self._monotonic() >= courier.away_until

    def _lost(self, courier: _Courier, why: str) -> None:
        first = courier.away_until is None
        courier.pause_s = self._retry.away_s if first else min(courier.pause_s * 2, self._retry.away_s_max)
        courier.away_until = self._monotonic() + courier.pause_s
        if first:
            self._tell("backup_store_away", courier.store.name, why)

    def _back(self, courier: _Courier) -> None:
        if courier.away_until is not None:
            courier.away_until, courier.returned = None, True
            self._tell("backup_store_back", courier.store.name, "")


def _work(name: str, task: Callable[[], object], answers: _Answers) -> None:
    try:
        answer: object = task()
    except BaseException as error:
        answer = error
    with answers.changed:
        answers.by_store[name] = answer
        answers.changed.notify_all()
