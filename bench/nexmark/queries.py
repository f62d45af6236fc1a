"""The queries, as plain Spark and Rekindle both run them: DataFrames in, one DataFrame out.

Where Structured Streaming has no such operator (ranking, a maximum to be joined back), the same rows are found by an
aggregate; the docstring says how. All of it stays in the JVM. Rows are numbered, and of two that the query itself
cannot tell apart the earlier comes first, so the output is determined. What comes out when a window has closed comes
out in append mode, what is never final in update mode.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench._workload import Parameters
from bench.nexmark.generator import LATE_S, oldest_ms

SEQ_BITS = 34
SEQ_MAX = 2**SEQ_BITS - 1


def q0(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Pass through: every bid as it is."""
    return bid.select("seq", "auction", "bidder", "price", "channel", "url", "at_ms")


def q1(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Currency: every price in euros."""
    return bid.select("seq", "auction", "bidder", (F.col("price") * F.lit(0.908)).alias("price"), "at_ms")


def q2(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Selection: the bids for some auctions."""
    return bid.where(F.col("auction") % 123 == 0).select("seq", "auction", "price")


def q3(auction: DataFrame, person: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Local item suggestion: who in Oregon, Idaho or California sells something in category 10. A seller may sell again
    at any time, so the state has no bounds."""
    items = auction.where("category = 10").select(F.col("id").alias("auction"), "seller", F.col("seq").alias("a_seq"))
    local = person.where("state IN ('OR', 'ID', 'CA')").select("id", "name", "city", "state", "seq")
    found = items.join(local, F.col("seller") == F.col("id"))
    return found.select("auction", "name", "city", "state", F.greatest("seq", "a_seq").alias("seq"))


def q4(auction: DataFrame, bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Average price for a category: of the highest bids that auctions got while they were open. The average is over the
    auctions that began in the same window, so that it is final at some time: all windows of a category together, by
    their sums and counts, are the average over all auctions. That no auction is open for longer than ``open_s`` only
    tells Spark how long to remember it."""
    open_for = F.expr(f"INTERVAL {parameters['open_s']} SECONDS")
    opened = _watermarked(auction).select("ts", "id", "category", F.col("at_ms").alias("begins_ms"), "expires_ms")
    bids = _watermarked(bid).select(F.col("ts").alias("bid_ts"), "auction", "price", F.col("at_ms").alias("bid_ms"))
    in_time = (F.col("bid_ts") >= F.col("ts")) & (F.col("bid_ts") <= F.col("ts") + open_for)
    taken = in_time & F.col("bid_ms").between(F.col("begins_ms"), F.col("expires_ms"))
    offers = opened.join(bids, (F.col("id") == F.col("auction")) & taken).select("ts", "id", "category", "price")
    final = offers.groupBy("ts", "id", "category").agg(F.max("price").alias("final"))
    windows = final.groupBy(_window(parameters), "category")
    prices = windows.agg(F.count("*").alias("auctions"), F.sum("final").alias("total"))
    average = F.col("total").cast("double") / F.col("auctions")
    return prices.select(_start_ms(), "category", "auctions", "total", average.alias("average"))


def q5(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Hot items: of each sliding window the auctions with the most bids, all of them where several have as many. The
    counts of a window are collected when it closes, and those kept that are the maximum."""
    sliding = F.window("ts", f"{parameters['window_s']} seconds", f"{parameters['slide_s']} seconds").alias("window")
    counts = _watermarked(bid).groupBy(sliding, "auction").agg(F.count("*").alias("n"))
    each = F.struct("n", "auction")
    windows = counts.groupBy("window").agg(F.max("n").alias("most"), F.array_sort(F.collect_list(each)).alias("all"))
    best = windows.select(_start_ms(), F.explode(F.filter("all", lambda one: one["n"] == F.col("most"))).alias("best"))
    return best.select("start_ms", "best.auction", "best.n")


def q7(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Highest bid of each window; of equal ones the first, as at an auction. The bid is carried along with the maximum,
    in place of a join with the maximum when the window has closed."""
    windows = _watermarked(bid).groupBy(_window(parameters))
    best = windows.agg(*(F.max_by(name, _best_first()).alias(name) for name in ("seq", "auction", "bidder", "price")))
    return best.select(_start_ms(), "seq", "auction", "bidder", "price")


def q8(person: DataFrame, auction: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Monitor new users: who began to sell in the window in which they registered. Their auctions of a window are
    counted when it closes, so that a person comes out once."""
    sellers = _watermarked(auction).groupBy(_window(parameters), "seller").agg(F.count("*").alias("auctions"))
    new = _watermarked(person).select(_window(parameters), "id", "name")
    return sellers.join(new.withColumnRenamed("id", "seller"), ["window", "seller"]).select(
        _start_ms(), F.col("seller").alias("id"), "name", "auctions"
    )


def q11(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """User sessions: how many bids each bidder makes without pausing for longer than the gap."""
    session = F.session_window("ts", f"{parameters['gap_s']} seconds").alias("window")
    sessions = _watermarked(bid).groupBy(session, "bidder").agg(F.count("*").alias("n"))
    return sessions.select("bidder", _start_ms(), F.unix_millis("window.end").alias("end_ms"), "n")


def q12(clocked: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Processing time windows: how many bids of each bidder were seen in each window of the clock, see ``clocked``."""
    windows = clocked.withWatermark("seen", f"{LATE_S} seconds").groupBy(_window(parameters, "seen"), "bidder")
    return windows.agg(F.count("*").alias("n"), F.max("seq").alias("seq")).select(_start_ms(), "bidder", "n", "seq")


def clocked(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Each bid with the time at which it is seen. With the parameter ``clock`` 'row' that is the clock when the row is
    computed, as Flink's PROCTIME(). With 'batch' it is Spark's current_timestamp(): one time for all rows of a batch,
    which plain Spark keeps in its own log and takes again when the batch is repeated."""
    if parameters["clock"] == "batch":
        return bid.select("seq", "bidder", F.current_timestamp().alias("seen"))
    clock = F.reflect(F.lit("java.lang.System"), F.lit("currentTimeMillis"))
    return bid.select("seq", "bidder", F.timestamp_millis(clock.cast("long")).alias("seen"))


def q17(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Auction statistics a day."""
    cheap, dear = F.col("price") < 10_000, F.col("price") >= 1_000_000
    days = _watermarked(bid).groupBy(F.window("ts", "1 day").alias("window"), "auction")
    found = days.agg(
        F.count("*").alias("n"),
        F.count_if(cheap).alias("cheap"),
        F.count_if(~cheap & ~dear).alias("middle"),
        F.count_if(dear).alias("dear"),
        F.min("price").alias("lowest"),
        F.max("price").alias("highest"),
        F.sum("price").alias("total"),
        F.max("seq").alias("seq"),
    )
    average = (F.col("total").cast("double") / F.col("n")).alias("average")
    counts = ("n", "cheap", "middle", "dear", "lowest", "highest", "total")
    return found.select("auction", _start_ms(), *counts, average, "seq")


def q18(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Last bid: of each bidder for each auction. An aggregate finds it by its number, in place of a ranking."""
    last = bid.groupBy("bidder", "auction").agg(
        F.max("seq").alias("seq"), F.max_by("price", "seq").alias("price"), F.max_by("at_ms", "seq").alias("at_ms")
    )
    return last.select("bidder", "auction", "price", "at_ms", "seq")


def q19(bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Top ten: the highest bids for each auction, of equal ones the first. An aggregate keeps ten, in place of a
    ranking. ``changed`` is the number of the bid that put this row at its rank."""
    best = F.max_by(F.struct("price", "bidder", "seq"), _best_first(), 10)
    top = (
        bid.groupBy("auction")
        .agg(best.alias("top"))
        .select("auction", "top", F.posexplode("top").alias("place", "one"))
    )
    changed = F.array_max(F.transform(F.slice("top", 1, F.col("place") + 1), lambda one: one["seq"]))
    return top.select(
        "auction", (F.col("place") + 1).alias("rank"), "one.price", "one.bidder", "one.seq", changed.alias("changed")
    )


def q20(auction: DataFrame, bid: DataFrame, *, parameters: Parameters) -> DataFrame:
    """Expand bid with auction: in category 10. Bids are for auctions that began shortly before, which the condition on
    time repeats, so that Spark need not remember every bid for ever; it leaves out nothing."""
    shortly = F.expr(f"INTERVAL {oldest_ms(parameters)} MILLISECONDS")
    items = _watermarked(auction).where("category = 10")
    items = items.select("id", "item", "seller", "category", "reserve", "ts")
    bids = _watermarked(bid).select("seq", "auction", "bidder", "price", F.col("ts").alias("bid_ts"))
    in_time = (F.col("bid_ts") >= F.col("ts")) & (F.col("bid_ts") <= F.col("ts") + shortly)
    found = bids.join(items, (F.col("auction") == F.col("id")) & in_time)
    return found.select("seq", "auction", "bidder", "price", "item", "seller", "reserve")


def _watermarked(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("ts", f"{LATE_S} seconds")


def _window(parameters: Parameters, column: str = "ts") -> Column:
    return F.window(column, f"{parameters['window_s']} seconds").alias("window")


def _start_ms() -> Column:
    return F.unix_millis("window.start").alias("start_ms")


def _best_first() -> Column:
    """One number that is greater for the better bid: prices in cents are below 2**28."""
    return F.shiftleft("price", SEQ_BITS) + (F.lit(SEQ_MAX) - F.col("seq"))
