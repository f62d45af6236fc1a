"""Linear Road as a Rekindle pipeline: eight operators, in two fragments.

    reports -> forwarder -> toll_calculator (with the accident detector) -> accident_notification -> collector
                                                                         -> toll_assessment -> balance_account
                                                                         -> daily_expenditure

What the accident detector finds in a minute matters from the next minute on, and both it and the toll calculator keep
what they know by road, so they are one stateful operator: ``road.AccidentDetector`` within ``road.Part``. The queries
pass through the toll calculator, so that none comes before the charges of its second.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

import rekindle as rk
from bench._place import here
from bench.linear_road import operators as o
from bench.linear_road.world import INPUT, PARAMETERS

place = here(PARAMETERS)
expressways, parts = place.parameters["expressways"], place.parameters["buckets"]

SPARK = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000000",
}

pipeline = rk.Pipeline("linear_road", settings=replace(place.settings, spark=SPARK), recovery=place.recovery)
pipeline.source("reports", place.files("reports", INPUT), rows_max=place.rows_max)


@pipeline.stream
def forwarder(reports: DataFrame) -> DataFrame:
    return o.forwarded(reports, parts)


@pipeline.stream(rows_max=place.rows_max, partitions=parts)
def toll_calculator(forwarder: DataFrame) -> DataFrame:
    return o.tolls_calculated(forwarder, expressways, parts)


@pipeline.stream
def accident_notification(toll_calculator: DataFrame) -> DataFrame:
    return o.accidents_announced(toll_calculator)


@pipeline.stream(partitions=parts)
def toll_assessment(toll_calculator: DataFrame) -> DataFrame:
    return o.assessed(toll_calculator, parts)


@pipeline.stream
def balance_account(toll_assessment: DataFrame) -> DataFrame:
    return o.balances_told(toll_assessment)


@pipeline.stream
def daily_expenditure(toll_calculator: DataFrame) -> DataFrame:
    return o.expenditures_told(toll_calculator, place.parameters["history"])


@pipeline.stream
def collector(
    toll_calculator: DataFrame,
    accident_notification: DataFrame,
    balance_account: DataFrame,
    daily_expenditure: DataFrame,
) -> DataFrame:
    tolls = o.tolls_announced(toll_calculator)
    return tolls.union(accident_notification).union(balance_account).union(daily_expenditure)


pipeline.sink("collector", place.sink())
