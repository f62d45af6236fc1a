"""The rows of an auction house: each a function of its number and of the parameters, nothing else.

Rows are numbered through. Of every 50 the first is a person, three are auctions, 46 are bids, in that order, so all
that a row refers to has come before it. Event time grows with the number, ``rate`` rows to a second. Half of the bids
go to one hot auction at a time, three in four come from one hot bidder, three auctions in four are of one hot seller;
the others are drawn evenly from the latest auctions and people. Prices are log-uniform.

What is drawn for a row is a hash of its number, so that any slice of the rows can be made by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench._workload import Numbers, Parameters

GROUP, PEOPLE, AUCTIONS = 50, 1, 3  # of 50 rows one is a person, three are auctions, the rest bids
PLACES_IN_GROUP = {"person": (0, PEOPLE), "auction": (PEOPLE, PEOPLE + AUCTIONS), "bid": (PEOPLE + AUCTIONS, GROUP)}
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EVERY = 100  # the first of so many auctions or people is the hot one, until the next is
LATE_S = 2  # the watermark's delay; nothing is late
FIRST_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000
PARAMETERS: Parameters = MappingProxyType(
    {"seed": 1, "rate": 10_000, "people_active": 1_000, "auctions_in_flight": 100, "open_s": 1}
)
"""``rate``: rows in a second of event time, and in a second of the clock where input comes at a pace. ``open_s``: how
long an auction is open at most."""

PERSON = "seq long, at_ms long, ts timestamp, id long, name string, email string, city string, state string"
AUCTION = (
    "seq long, at_ms long, ts timestamp, id long, item string, initial_bid long, reserve long, expires_ms long, "
    "seller long, category long"
)
BID = "seq long, at_ms long, ts timestamp, auction long, bidder long, price long, channel string, url string"
INPUTS = {"person": PERSON, "auction": AUCTION, "bid": BID}

GIVEN = ("Ada", "Bela", "Carla", "Deniz", "Emil", "Fadia", "Goran", "Hana", "Ilse", "Jomo", "Kaya")
FAMILY = ("Abel", "Borg", "Castro", "Dahl", "Ezra", "Funk", "Greco", "Haas", "Iqbal")
PLACES = (("Phoenix", "AZ"), ("Los Angeles", "CA"), ("San Francisco", "CA"), ("Boise", "ID"), ("Portland", "OR"),
          ("Bend", "OR"), ("Seattle", "WA"), ("Kent", "WA"), ("Redmond", "WA"), ("Cheyenne", "WY"))  # fmt: skip
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
CHANNELS = 10_000

Draws = npt.NDArray[np.uint64]


def rows(first: int, count: int, parameters: Parameters, *, only: Sequence[str] = tuple(INPUTS)) -> dict[str, pa.Table]:
    """The tables of ``only`` these inputs, of the rows that are numbered from ``first`` on."""
    makers = {"person": people, "auction": auctions, "bid": bids}
    return {name: makers[name](numbers(name, first, count), parameters) for name in only}


def numbers(kind: str, first: int, count: int) -> Numbers:
    """Which of ``count`` row numbers from ``first`` on are of this kind."""
    groups = np.arange(first // GROUP, -(-(first + count) // GROUP), dtype=np.int64)
    seq: Numbers = (groups[:, np.newaxis] * GROUP + np.arange(*PLACES_IN_GROUP[kind])).ravel()
    return seq[(seq >= first) & (seq < first + count)]


def at_ms(seq: Numbers, parameters: Parameters) -> Numbers:
    """The event time of rows."""
    return FIRST_MS + seq * 1000 // int(parameters["rate"])


def first_at(kind: str, time_ms: Numbers, parameters: Parameters) -> Numbers:
    """The number of the first row of this kind whose event time is ``time_ms`` or later."""
    seq = -(-(time_ms - FIRST_MS) * int(parameters["rate"]) // 1000)
    place = seq % GROUP
    begins, ends = PLACES_IN_GROUP[kind]
    ahead = np.where(place < begins, begins - place, np.where(place < ends, 0, GROUP - place + begins))
    found: Numbers = seq + ahead
    return found


def oldest_ms(parameters: Parameters) -> int:
    """How long before a bid its auction began at most: bids go to the latest auctions only."""
    groups = max(int(parameters["auctions_in_flight"]), HOT_EVERY) // AUCTIONS + 2
    return groups * GROUP * 1000 // int(parameters["rate"]) + 1


def people(seq: Numbers, parameters: Parameters) -> pa.Table:
    given = _below(len(GIVEN), seq, "given", parameters)
    family = _below(len(FAMILY), seq, "family", parameters)
    place = _below(len(PLACES), seq, "place", parameters)
    pairs = [(g, f) for g in GIVEN for f in FAMILY]
    pair = pa.array(given * len(FAMILY) + family)
    return pa.table(
        {
            **_times(seq, parameters),
            "id": pa.array(FIRST_ID + seq // GROUP),
            "name": pa.array([f"{g} {f}" for g, f in pairs]).take(pair),
            "email": pa.array([f"{g}.{f}@mail.example".lower() for g, f in pairs]).take(pair),
            "city": pa.array([city for city, _ in PLACES]).take(pa.array(place)),
            "state": pa.array([state for _, state in PLACES]).take(pa.array(place)),
        }
    )


def auctions(seq: Numbers, parameters: Parameters) -> pa.Table:
    begins_ms = at_ms(seq, parameters)
    latest = seq // GROUP
    hot = _below(4, seq, "hot seller", parameters) > 0
    seller = np.where(
        hot,
        latest // HOT_EVERY * HOT_EVERY,
        _among_latest(int(parameters["people_active"]), latest, seq, "seller", parameters),
    )
    initial = _price(seq, "initial", parameters)
    return pa.table(
        {
            **_times(seq, parameters),
            "id": pa.array(FIRST_ID + latest * AUCTIONS + seq % GROUP - PEOPLE),
            "item": pa.array([f"item {number}" for number in range(1_000)]).take(
                pa.array(_below(1_000, seq, "item", parameters))
            ),
            "initial_bid": pa.array(initial),
            "reserve": pa.array(initial + _price(seq, "reserve", parameters)),
            "expires_ms": pa.array(begins_ms + 1 + _below(int(parameters["open_s"]) * 1000, seq, "length", parameters)),
            "seller": pa.array(FIRST_ID + seller),
            "category": pa.array(FIRST_CATEGORY + _below(CATEGORIES, seq, "category", parameters)),
        }
    )


def bids(seq: Numbers, parameters: Parameters) -> pa.Table:
    person, newest = seq // GROUP, seq // GROUP * AUCTIONS + AUCTIONS - 1
    hot = _below(2, seq, "hot auction", parameters) > 0
    auction = np.where(
        hot,
        newest // HOT_EVERY * HOT_EVERY,
        _among_latest(int(parameters["auctions_in_flight"]), newest, seq, "auction", parameters),
    )
    hot = _below(4, seq, "hot bidder", parameters) > 0
    bidder = np.where(
        hot,
        np.maximum(0, (person - 1) // HOT_EVERY * HOT_EVERY + 1),  # not the hot seller, who is one earlier
        _among_latest(int(parameters["people_active"]), person, seq, "bidder", parameters),
    )
    hot = _below(2, seq, "hot channel", parameters) > 0
    channel = np.where(
        hot,
        _below(len(HOT_CHANNELS), seq, "channel", parameters),
        len(HOT_CHANNELS) + _below(CHANNELS, seq, "channel", parameters),
    )
    names, urls = _channels()
    return pa.table(
        {
            **_times(seq, parameters),
            "auction": pa.array(FIRST_ID + auction),
            "bidder": pa.array(FIRST_ID + bidder),
            "price": pa.array(_price(seq, "price", parameters)),
            "channel": names.take(pa.array(channel)),
            "url": urls.take(pa.array(channel)),
        }
    )


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    names = [*HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]
    urls = [f"https://auctions.example/{name.lower()}/item.html?query=1&channel_id={i}" for i, name in enumerate(names)]
    return pa.array(names), pa.array(urls)


def _times(seq: Numbers, parameters: Parameters) -> Mapping[str, pa.Array]:
    time_ms = at_ms(seq, parameters)
    return {"seq": pa.array(seq), "at_ms": pa.array(time_ms), "ts": pa.array(time_ms * 1000, pa.timestamp("us", "UTC"))}


def _among_latest(many: int, newest: Numbers, seq: Numbers, what: str, parameters: Parameters) -> Numbers:
    """One of the ``many`` that came last, ``newest`` among them."""
    found: Numbers = newest - _below(np.minimum(many, newest + 1), seq, what, parameters)
    return found


def _price(seq: Numbers, what: str, parameters: Parameters) -> Numbers:
    """In cents: from 1 to a million, every factor of ten as often as the others."""
    part = (_drawn(seq, what, parameters) >> np.uint64(11)).astype(np.float64) / 2.0**53
    found: Numbers = np.rint(100 * np.power(10.0, 6 * part)).astype(np.int64)
    return found


def _below(bound: int | Numbers, seq: Numbers, what: str, parameters: Parameters) -> Numbers:
    """Whole numbers from 0 to below ``bound``, which is at most 2**32."""
    high = _drawn(seq, what, parameters) >> np.uint64(32)
    found: Numbers = ((high * np.asarray(bound, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)
    return found


def _drawn(seq: Numbers, what: str, parameters: Parameters) -> Draws:
    """64 bits for each row: the finalizer of SplitMix64 over its number, by what it is for and the seed."""
    salt = hashlib.blake2b(f"{parameters['seed']} {what}".encode(), digest_size=8).digest()
    z = seq.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(salt, "little"))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
