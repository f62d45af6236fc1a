"""Fraud, as an example: what each account paid shortly after a login, and how much of it from another country.

    rekindle run fraud.py --home /tmp/fraud

Every column is a pure function of the generators' columns, and all sums are of whole cents: the same input
always gives the same output, to the last digit.
"""

import os

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import rekindle as rk

PAYMENTS_PER_S = int(os.environ.get("FRAUD_PAYMENTS_PER_S", "1000"))
LOGINS_PER_S = int(os.environ.get("FRAUD_LOGINS_PER_S", "300"))
SECONDS = int(os.environ.get("FRAUD_SECONDS", "60"))
ACCOUNTS = int(os.environ.get("FRAUD_ACCOUNTS", "200"))
OUT = os.environ.get("FRAUD_OUT", "fraud-out")

COUNTRIES = ("AT", "BR", "CA", "DE", "FR", "IN", "JP", "US")

pipeline = rk.Pipeline("fraud")

# Two streams of (ts, seq, key, value), which end after SECONDS. They, the join and the sink are on node "main".
pipeline.source("payments", rk.sources.Rate(PAYMENTS_PER_S, keys=ACCOUNTS, seed=11, limit=PAYMENTS_PER_S * SECONDS))
pipeline.source("logins", rk.sources.Rate(LOGINS_PER_S, keys=ACCOUNTS, seed=23, limit=LOGINS_PER_S * SECONDS))


def country(at_home_below: int) -> Column:
    """The account's own country while ``value`` is below the bound, some other one above it."""
    away = F.when(F.col("value") < at_home_below, 0).otherwise(F.col("value") % 7 + 1)
    return F.element_at(F.array(*map(F.lit, COUNTRIES)), ((F.col("key") + away) % 8 + 1).cast("int"))


@pipeline.stream
def matched(payments: DataFrame, logins: DataFrame) -> DataFrame:
    """Every payment with every login of the same account in the two seconds before it."""
    paid = payments.withWatermark("ts", "2 seconds").select(
        F.col("key").alias("account"),
        F.col("ts").alias("paid_at"),
        (F.col("value") * 25 + F.col("seq") % 25 + 100).alias("cents"),
        country(950).alias("paid_in"),
    )
    logged_in = logins.withWatermark("ts", "2 seconds").select(
        F.col("key").alias("login_account"),
        F.col("ts").alias("login_at"),
        country(900).alias("login_from"),
    )
    same_account = F.col("account") == F.col("login_account")
    shortly_after = F.expr("paid_at >= login_at AND paid_at <= login_at + INTERVAL 2 SECONDS")
    return paid.join(logged_in, same_account & shortly_after).drop("login_account")


# How far rows of the join can be out of order is its time bound, whichever of its inputs runs ahead: with that
# as the delay no row is ever late.
@pipeline.stream(node="score")
def scores(matched: DataFrame) -> DataFrame:
    """For every account and second: the matches, their sum, and what was paid in another country."""
    elsewhere = F.col("paid_in") != F.col("login_from")
    return (
        matched.withWatermark("paid_at", "2 seconds")
        .groupBy(F.window("paid_at", "1 second"), "account")
        .agg(
            F.count("*").alias("matches"),
            F.sum("cents").alias("cents"),
            F.sum(F.when(elsewhere, 1).otherwise(0)).alias("elsewhere"),
            F.sum(F.when(elsewhere, F.col("cents")).otherwise(0)).alias("elsewhere_cents"),
            F.max("cents").alias("largest_cents"),
        )
        .select(
            F.col("window.start").alias("second"),
            "account",
            "matches",
            "cents",
            "elsewhere",
            "elsewhere_cents",
            "largest_cents",
        )
    )


pipeline.sink("scores", rk.sinks.Files(OUT, format="json"))
