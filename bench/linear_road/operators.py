"""The operators of Linear Road on Spark. The rules are in ``road`` and ``accounts``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.linear_road.accounts import Accounts
from bench.linear_road.expenditures import looked_up
from bench.linear_road.packing import Ints, packed, unpacked
from bench.linear_road.road import CROSSING, REPORT, Part, Roads
from bench.linear_road.world import ACCIDENT, ANSWERS, BALANCE, EXPENDITURE, POSITION, TOLL

FORWARDED = ("type", *REPORT, "qid", "day")
SAID = ("type", *CROSSING, "qid", "day")
"""The columns of the toll calculator's stream: its crossings, and the queries, which pass through it so that they are
never ahead of what is charged. What a row does not have is -1."""
EVENT = ("type", "time", "vid", "qid", "charged")
SETTLED = ("time", "vid", "qid", "bal")


def ints(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name} int" for name in names)


# -- the forwarder ---------------------------------------------------------------------------------------


def forwarded(reports: DataFrame, parts: int) -> DataFrame:
    """Reports by part of the roads, queries to any."""
    return packed(reports, FORWARDED, parts, _part_of_roads)


def _part_of_roads(rows: Ints, parts: int) -> Ints:
    kind, _, vid, _, xway, _, direction, *_ = rows
    found: Ints = np.where(kind == POSITION, xway * 2 + direction, vid) % parts
    return found


# -- the toll calculator, with the accident detector ------------------------------------------------------


class RoadState:
    """A ``road.Memory`` in a map state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return bytes(value[0]) if value is not None else None

    def put(self, name: str, value: bytes) -> None:
        self._state.updateValue((name,), (value,))


class TollCalculator(StatefulProcessor):
    def __init__(self, expressways: int, parts: int) -> None:
        self._expressways = expressways
        self._parts = parts

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("road", "name string", "value binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(list(rows))
        said = unpacked(frame["rows"], len(FORWARDED))
        reports = said[:, said[0] == POSITION]
        part = Part(Roads(self._expressways, int(frame["part"].iloc[0]), self._parts), RoadState(self._state))
        crossings = part.epoch(reports[1 : 1 + len(REPORT)])
        part.save()
        yield _framed(
            SAID, {"type": np.full(crossings.shape[1], POSITION), **dict(zip(CROSSING, crossings, strict=True))}
        )
        queries = dict(zip(FORWARDED, said[:, said[0] != POSITION], strict=True))
        if len(queries["type"]):
            yield _framed(SAID, {name: queries[name] for name in ("type", "time", "vid", "xway", "qid", "day")})

    def close(self) -> None:
        pass


def tolls_calculated(forwarder: DataFrame, expressways: int, parts: int) -> DataFrame:
    processor = TollCalculator(expressways, parts)
    return forwarder.groupBy("label").transformWithStateInPandas(processor, ints(SAID), "Append", "None")


# -- the toll assessment ---------------------------------------------------------------------------------


class AccountState:
    """An ``accounts.Ledger`` in a list state and a map state."""

    def __init__(self, log: Any, shelves: Any) -> None:
        self._log = log
        self._shelves = shelves

    def log(self) -> list[bytes]:
        return [bytes(entry[0]) for entry in self._log.get()]

    def append(self, entry: bytes) -> None:
        self._log.appendValue((entry,))

    def clear_log(self) -> None:
        self._log.clear()

    def shelf(self, number: int) -> bytes | None:
        value = self._shelves.getValue((number,))
        return bytes(value[0]) if value is not None else None

    def put_shelf(self, number: int, value: bytes) -> None:
        self._shelves.updateValue((number,), (value,))


class TollAssessment(StatefulProcessor):
    def __init__(self, parts: int) -> None:
        self._parts = parts

    def init(self, handle: StatefulProcessorHandle) -> None:
        log, shelves = (
            handle.getListState("log", "entry binary"),
            handle.getMapState("shelves", "n int", "value binary"),
        )
        self._state = AccountState(log, shelves)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any) -> Iterator[pd.DataFrame]:
        kind, time, vid, qid, charged = unpacked(pd.concat(list(rows))["rows"], len(EVENT))
        asked, charges = kind == BALANCE, np.stack([time, vid, charged])[:, kind != BALANCE]
        balances = Accounts(self._state, self._parts).epoch(charges, np.stack([time, vid])[:, asked])
        yield _framed(SETTLED, {"time": time[asked], "vid": vid[asked], "qid": qid[asked], "bal": balances})

    def close(self) -> None:
        pass


def assessed(toll_calculator: DataFrame, parts: int) -> DataFrame:
    events = toll_calculator.where((F.col("charged") > 0) | (F.col("type") == BALANCE))
    grouped = packed(events, EVENT, parts, _part_of_cars).groupBy("label")
    return grouped.transformWithStateInPandas(TollAssessment(parts), ints(SETTLED), "Append", "None")


def _part_of_cars(rows: Ints, parts: int) -> Ints:
    found: Ints = rows[2] % parts
    return found


# -- answers ---------------------------------------------------------------------------------------------


def tolls_announced(toll_calculator: DataFrame) -> DataFrame:
    crossings = toll_calculator.where((F.col("type") == POSITION) & (F.col("lav") >= 0))
    return _answers(crossings, TOLL, "time", "vid", "lav", "toll")


def accidents_announced(toll_calculator: DataFrame) -> DataFrame:
    crossings = toll_calculator.where((F.col("type") == POSITION) & (F.col("accident") >= 0))
    return _answers(crossings, ACCIDENT, "time", "vid", "xway", "dir", seg=F.col("accident"))


def balances_told(toll_assessment: DataFrame) -> DataFrame:
    return _answers(toll_assessment, BALANCE, "time", "vid", "qid", "bal", result_time=F.col("time"))


def expenditures_told(toll_calculator: DataFrame, store: str) -> DataFrame:
    queries = toll_calculator.where(F.col("type") == EXPENDITURE).select("time", "vid", "qid", "xway", "day")
    found = queries.mapInArrow(partial(looked_up, store=store), ints(SETTLED))
    return _answers(found, EXPENDITURE, "time", "vid", "qid", "bal")


def _answers(frame: DataFrame, kind: int, *names: str, **computed: Column) -> DataFrame:
    columns = {name: F.col(name) for name in names} | computed | {"type": F.lit(kind)}
    return frame.select(*(columns.get(name, F.lit(-1)).cast("int").alias(name) for name in ANSWERS))


def _framed(names: tuple[str, ...], columns: dict[str, Any]) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    missing = np.full(count, -1, np.int32)
    return pd.DataFrame({name: np.asarray(columns.get(name, missing), dtype=np.int32) for name in names})
