"""Nexmark: queries over the people, auctions and bids of an auction house.

The input is ``generator``'s, the queries are in ``queries`` (and ``flink``), the Rekindle pipeline of each is
``pipeline``. Files hold about as many rows of the inputs that a query reads, whichever these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench._workload import Numbers, Parameters, Step, Workload, sliced
from bench.nexmark import generator
from bench.nexmark.flink import FLINK
from bench.nexmark.generator import GROUP, INPUTS, LATE_S, PLACES_IN_GROUP, first_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_ROWS = 200_000
Cause = Callable[[pa.Table, Parameters], Numbers]


def column(name: str) -> Cause:
    """The row's number is in the output."""

    def cause(output: pa.Table, _parameters: Parameters) -> Numbers:
        found: Numbers = output[name].to_numpy()
        return found

    return cause


def closing(*kinds: str, end_ms: Callable[[pa.Table, Parameters], Numbers]) -> Cause:
    """The first row of each input that moves its watermark to ``end_ms``; the last of these counts."""

    def cause(output: pa.Table, parameters: Parameters) -> Numbers:
        times_ms = end_ms(output, parameters) + LATE_S * 1000
        found: Numbers = np.max([first_at(kind, times_ms, parameters) for kind in kinds], axis=0)
        return found

    return cause


def window_end(output: pa.Table, parameters: Parameters) -> Numbers:
    found: Numbers = output["start_ms"].to_numpy() + parameters["window_s"] * 1000
    return found


def auctions_over(output: pa.Table, parameters: Parameters) -> Numbers:
    """When no auction that began in the window can still get a bid."""
    found: Numbers = window_end(output, parameters) + parameters["open_s"] * 1000
    return found


def session_end(output: pa.Table, _parameters: Parameters) -> Numbers:
    found: Numbers = output["end_ms"].to_numpy()
    return found


def each_bid_counted_once(steps: Sequence[Step], output: pa.Table, _parameters: Parameters) -> str:
    """Which window of the clock a bid falls into is not determined; that it falls into one only is."""
    read = pa.concat_tables([pq.read_table(step.files["bid"], columns=["seq", "bidder"]) for step in steps])
    made = read.group_by("bidder").aggregate([("seq", "count"), ("seq", "max")]).sort_by("bidder")
    counted = output.group_by("bidder").aggregate([("n", "sum"), ("seq", "max")]).sort_by("bidder")
    if not made["bidder"].equals(counted["bidder"]):
        return f"{made.num_rows} people made bids, those of {counted.num_rows} were counted"
    wrong = pc.not_equal(made["seq_count"], counted["n_sum"]).to_numpy()
    if wrong.any():
        bidder, bids, said = (table[name][int(wrong.argmax())] for table, name in (
            (made, "bidder"), (made, "seq_count"), (counted, "n_sum")))  # fmt: skip
        return f"{wrong.sum()} people's bids were not counted once each: {bidder} made {bids}, counted were {said}"
    if not made["seq_max"].equals(counted["seq_max"]):
        return "the last bid of somebody is not in their last count"
    return ""


def query(number: str) -> Callable[[Mapping[str, DataFrame], Parameters], DataFrame]:
    def built(inputs: Mapping[str, DataFrame], parameters: Parameters) -> DataFrame:
        from bench.nexmark import queries

        if number == "q12":
            return queries.q12(queries.clocked(inputs["bid"], parameters=parameters), parameters=parameters)
        found: DataFrame = getattr(queries, number)(**inputs, parameters=parameters)
        return found

    return built


def declared(
    number: str,
    about: str,
    *inputs: str,
    columns: str,
    key: Sequence[str],
    cause: Cause,
    mode: Literal["append", "update"] = "append",
    check: Callable[[Sequence[Step], pa.Table, Parameters], str] | None = None,
    **parameters: Any,
) -> Workload:
    share = sum(end - begin for begin, end in (PLACES_IN_GROUP[name] for name in inputs))
    return Workload(
        name=f"nexmark_{number}",
        about=about,
        inputs={name: INPUTS[name] for name in inputs},
        make=sliced(
            partial(generator.rows, only=inputs),
            file_rows=FILE_ROWS * GROUP // share,
            rate=lambda values: int(values["rate"]),
        ),
        pipeline=Path(__file__).with_name("pipeline.py"),
        stream=number,
        query=query(number),
        columns=columns,
        key=key,
        mode=mode,
        check=check,
        cause=cause,
        flink=FLINK[number],
        time_column="ts",
        watermark_s=LATE_S,
        parameters=MappingProxyType({**generator.PARAMETERS, **parameters, "query": number}),
    )


WORKLOADS = (
    declared(
        "q0", "pass through", "bid",
        columns="seq long, auction long, bidder long, price long, channel string, url string, at_ms long",
        key=("seq",), cause=column("seq"),
    ),
    declared(
        "q1", "prices in another currency", "bid",
        columns="seq long, auction long, bidder long, price double, at_ms long",
        key=("seq",), cause=column("seq"),
    ),
    declared(
        "q2", "the bids for some auctions", "bid",
        columns="seq long, auction long, price long",
        key=("seq",), cause=column("seq"),
    ),
    declared(
        "q3", "who sells something of a category in some states (join, unbounded)", "auction", "person",
        columns="auction long, name string, city string, state string, seq long",
        key=("auction",), cause=column("seq"),
    ),
    declared(
        "q4", "average of the winning bids of a category (join, two aggregates)", "auction", "bid",
        columns="start_ms long, category long, auctions long, total long, average double",
        key=("start_ms", "category"), cause=closing("auction", "bid", end_ms=auctions_over), window_s=10,
    ),
    declared(
        "q5", "the auctions with the most bids (sliding windows, two aggregates)", "bid",
        columns="start_ms long, auction long, n long",
        key=("start_ms", "auction"), cause=closing("bid", end_ms=window_end), window_s=10, slide_s=2,
    ),
    declared(
        "q7", "the highest bid of each window", "bid",
        columns="start_ms long, seq long, auction long, bidder long, price long",
        key=("start_ms",), cause=closing("bid", end_ms=window_end), window_s=10,
    ),
    declared(
        "q8", "who sells as soon as they register (windowed join)", "person", "auction",
        columns="start_ms long, id long, name string, auctions long",
        key=("start_ms", "id"), cause=closing("person", "auction", end_ms=window_end), window_s=10,
    ),
    declared(
        "q11", "bids of each bidder's session", "bid",
        columns="bidder long, start_ms long, end_ms long, n long",
        key=("bidder", "start_ms"), cause=closing("bid", end_ms=session_end), gap_s=10,
    ),
    declared(
        "q12", "bids of each bidder in windows of the clock (processing time)", "bid",
        columns="start_ms long, bidder long, n long, seq long",
        key=("start_ms", "bidder"), cause=column("seq"), mode="update", check=each_bid_counted_once,
        window_s=10, clock="row",
    ),
    declared(
        "q17", "statistics of each auction's day, update mode", "bid",
        columns="auction long, start_ms long, n long, cheap long, middle long, dear long, lowest long, highest long, "
        "total long, average double, seq long",
        key=("auction", "start_ms"), cause=column("seq"), mode="update",
    ),
    declared(
        "q18", "the last bid of each bidder for each auction, update mode", "bid",
        columns="bidder long, auction long, price long, at_ms long, seq long",
        key=("bidder", "auction"), cause=column("seq"), mode="update",
    ),
    declared(
        "q19", "the ten highest bids for each auction, update mode", "bid",
        columns="auction long, rank int, price long, bidder long, seq long, changed long",
        key=("auction", "rank"), cause=column("changed"), mode="update",
    ),
    declared(
        "q20", "bids with what they are for (join)", "auction", "bid",
        columns="seq long, auction long, bidder long, price long, item string, seller long, reserve long",
        key=("seq",), cause=column("seq"),
    ),
)  # fmt: skip
