"""Each query computed from the rows one by one, by its known meaning, with loops and sorting only.

Windows are all there are, also those that no watermark has closed yet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench._workload import Parameters

Row = Mapping[str, Any]
Rows = Sequence[Row]
Answer = list[dict[str, Any]]
DAY_MS = 86_400_000


def q0(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    return [{**bid} for bid in tables["bid"]]


def q1(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    return [{**bid, "price": bid["price"] * 0.908} for bid in tables["bid"]]


def q2(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    return [{**bid} for bid in tables["bid"] if bid["auction"] % 123 == 0]


def q3(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    people = {person["id"]: person for person in tables["person"] if person["state"] in ("OR", "ID", "CA")}
    return [
        {**people[a["seller"]], "auction": a["id"], "seq": max(a["seq"], people[a["seller"]]["seq"])}
        for a in tables["auction"]
        if a["category"] == 10 and a["seller"] in people
    ]


def q4(tables: Mapping[str, Rows], parameters: Parameters) -> Answer:
    auctions = {auction["id"]: auction for auction in tables["auction"]}
    winning: dict[int, int] = {}
    for bid in tables["bid"]:
        auction = auctions[bid["auction"]]
        if auction["at_ms"] <= bid["at_ms"] <= auction["expires_ms"]:
            winning[auction["id"]] = max(bid["price"], winning.get(auction["id"], 0))
    prices = defaultdict(list)
    for number, price in winning.items():
        prices[window(auctions[number], parameters), auctions[number]["category"]].append(price)
    return [
        {"start_ms": start_ms, "category": category, "auctions": len(p), "total": sum(p), "average": sum(p) / len(p)}
        for (start_ms, category), p in prices.items()
    ]


def q5(tables: Mapping[str, Rows], parameters: Parameters) -> Answer:
    window_ms, slide_ms = parameters["window_s"] * 1000, parameters["slide_s"] * 1000
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in tables["bid"]:
        start_ms = bid["at_ms"] // slide_ms * slide_ms
        while start_ms + window_ms > bid["at_ms"]:
            counts[start_ms][bid["auction"]] += 1
            start_ms -= slide_ms
    return [
        {"start_ms": start_ms, "auction": auction, "n": n}
        for start_ms, counted in counts.items()
        for auction, n in counted.items()
        if n == max(counted.values())
    ]


def q7(tables: Mapping[str, Rows], parameters: Parameters) -> Answer:
    best: dict[int, Row] = {}
    for bid in tables["bid"]:
        start_ms = window(bid, parameters)
        if start_ms not in best or bid["price"] > best[start_ms]["price"]:
            best[start_ms] = bid
    return [{**bid, "start_ms": start_ms} for start_ms, bid in best.items()]


def q8(tables: Mapping[str, Rows], parameters: Parameters) -> Answer:
    sold = Counter((window(auction, parameters), auction["seller"]) for auction in tables["auction"])
    return [
        {**person, "start_ms": window(person, parameters), "auctions": sold[window(person, parameters), person["id"]]}
        for person in tables["person"]
        if (window(person, parameters), person["id"]) in sold
    ]


def q11(tables: Mapping[str, Rows], parameters: Parameters) -> Answer:
    gap_ms = parameters["gap_s"] * 1000
    sessions: Answer = []
    newest: dict[int, dict[str, Any]] = {}
    for bid in tables["bid"]:
        session = newest.get(bid["bidder"])
        if session is None or bid["at_ms"] > session["end_ms"]:
            session = newest[bid["bidder"]] = {"bidder": bid["bidder"], "start_ms": bid["at_ms"], "n": 0}
            sessions.append(session)
        session["end_ms"] = bid["at_ms"] + gap_ms
        session["n"] += 1
    return sessions


def q17(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    prices = defaultdict(list)
    newest = {}
    for bid in tables["bid"]:
        key = (bid["auction"], bid["at_ms"] // DAY_MS * DAY_MS)
        prices[key].append(bid["price"])
        newest[key] = bid["seq"]
    return [
        {
            "auction": key[0],
            "start_ms": key[1],
            "n": len(p),
            "cheap": sum(price < 10_000 for price in p),
            "middle": sum(10_000 <= price < 1_000_000 for price in p),
            "dear": sum(price >= 1_000_000 for price in p),
            "lowest": min(p),
            "highest": max(p),
            "total": sum(p),
            "average": sum(p) / len(p),
            "seq": newest[key],
        }
        for key, p in prices.items()
    ]


def q18(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    return list({(bid["bidder"], bid["auction"]): {**bid} for bid in tables["bid"]}.values())


def q19(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    """Insertion by insertion, so that it is seen which bid changed which rank."""
    tops: dict[int, list[Row]] = defaultdict(list)
    changed: dict[tuple[int, int], int] = {}
    for bid in tables["bid"]:
        top = tops[bid["auction"]]
        rank = 1 + sum(other["price"] >= bid["price"] for other in top)
        top.insert(rank - 1, bid)
        del top[10:]
        for moved in range(rank, len(top) + 1):
            changed[bid["auction"], moved] = bid["seq"]
    return [
        {**bid, "rank": rank, "changed": changed[auction, rank]}
        for auction, top in tops.items()
        for rank, bid in enumerate(top, 1)
    ]


def q20(tables: Mapping[str, Rows], _: Parameters) -> Answer:
    auctions = {auction["id"]: auction for auction in tables["auction"] if auction["category"] == 10}
    return [{**auctions[bid["auction"]], **bid} for bid in tables["bid"] if bid["auction"] in auctions]


def window(row: Row, parameters: Parameters) -> int:
    window_ms = parameters["window_s"] * 1000
    start_ms: int = row["at_ms"] // window_ms * window_ms
    return start_ms


ANSWERS: Mapping[str, Callable[[Mapping[str, Rows], Parameters], Answer]] = {
    "q0": q0, "q1": q1, "q2": q2, "q3": q3, "q4": q4, "q5": q5, "q7": q7, "q8": q8, "q11": q11, "q17": q17, "q18": q18,
    "q19": q19, "q20": q20,
}  # fmt: skip
