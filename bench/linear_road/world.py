"""The world of Linear Road, and the form of its input and output. All else is rules, which are not shared: the
generator, the oracle and the query each have their own."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa

SEGMENTS = 100
SEGMENT_FEET = 5280
ROAD_FEET = SEGMENTS * SEGMENT_FEET
EAST, WEST = 0, 1
ENTRY, EXIT = 0, 4
TRAVEL_LANES = (1, 2, 3)
REPORT_S = 30
DAYS = 69

POSITION, BALANCE, EXPENDITURE = 0, 2, 3
"""Types of input rows."""
TOLL, ACCIDENT = 0, 1
"""Types of output rows, besides BALANCE and EXPENDITURE."""

COLUMNS = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "s_init", "s_end", "dow", "tod",
           "day")  # fmt: skip
INPUT = ", ".join(f"{name} int" for name in COLUMNS)
INPUT_ARROW = pa.schema([(name, pa.int32()) for name in COLUMNS])

ANSWERS = ("type", "time", "vid", "qid", "xway", "seg", "dir", "lav", "toll", "result_time", "bal")
"""The columns of the output; those that a type does not have are -1. The time of writing is not among them: it is when
the answer's epoch becomes visible at the sink, and not the same in every replay."""
OUTPUT = ", ".join(f"{name} int" for name in ANSWERS)

PARAMETERS = MappingProxyType({"expressways": 1, "history": "", "buckets": 2})
