"""What claim and publish cost, on SQLite and on a real PostgreSQL, with a short and a long history.

    python bench/keeper.py [--quick] [--epochs N] [--json FILE]

The databases lie in the temporary folder and fsync as in production. PostgreSQL is started by this script.
The rounds of the four cases alternate, so that noise of the machine hits all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from sqlalchemy import Connection, insert  # noqa: E402

from rekindle.home import Home  # noqa: E402
from rekindle.keeper import Keeper, open_keeper  # noqa: E402
from rekindle.keeper.address import schema_name  # noqa: E402
from rekindle.keeper.records import EpochNumber, Incarnation, Output, Segment, Span, StreamRecord  # noqa: E402
from rekindle.keeper.schema import Tables, tables  # noqa: E402
from tests.postgres import PostgresServer  # noqa: E402

ROUND = 25
SHORT = 1_000
TARGET_MS = {"SQLite": 5.0, "PostgreSQL": 10.0}


@dataclass
class Case:
    database: str
    history: int
    keeper: Keeper
    by: Incarnation
    epoch: int
    claim_ms: list[float] = field(default_factory=list)
    publish_ms: list[float] = field(default_factory=list)

    def turn(self) -> None:
        """One epoch of a fragment that reads one stream and writes one, timed."""
        self.epoch += 1
        epoch = EpochNumber(self.epoch)
        span = Span(self.epoch - 1, self.epoch)
        t0 = time.perf_counter()
        self.keeper.claim("counts", epoch, {"lines": span}, by=self.by)
        t1 = time.perf_counter()
        self.keeper.publish("counts", epoch, {"counts": proposal("counts", self.epoch)}, by=self.by)
        t2 = time.perf_counter()
        self.claim_ms.append((t1 - t0) * 1000)
        self.publish_ms.append((t2 - t1) * 1000)

    def figures(self) -> dict[str, Any]:
        both = [a + b for a, b in zip(self.claim_ms, self.publish_ms, strict=True)]
        figures: dict[str, Any] = {"database": self.database, "epochs": self.history, "samples": len(both)}
        for name, values in (("claim", self.claim_ms), ("publish", self.publish_ms), ("both", both)):
            figures[f"{name}_median_ms"] = round(statistics.median(values), 3)
            figures[f"{name}_p99_ms"] = round(statistics.quantiles(values, n=100)[98], 3)
        return figures


def proposal(stream: str, epoch: int) -> Output:
    parts = tuple(
        Segment(f"streams/{stream}/{epoch:012d}/part-{part}-1.parquet", 500, 20_000, f"{epoch * 7919:016x}")
        for part in range(2)
    )
    return Output(parts, 1000, 40_000, f"1000:{epoch * 104729}:{epoch * 1299709}", epoch * 10**6, epoch * 10**6 + 999)


def history(described: Tables, tx: Connection, epochs: int, ahead: int) -> None:
    """Put ``epochs`` claims and epochs of fragment counts on record, and ``ahead`` more of its input."""

    def epoch_rows(stream: str, count: int) -> Iterator[dict[str, Any]]:
        for e in range(1, count + 1):
            output = proposal(stream, e)
            yield {
                "stream": stream,
                "epoch": e,
                "fragment": stream,
                "segments": json.dumps([part.to_json() for part in output.segments], separators=(",", ":")),
                "rows": output.rows,
                "bytes": output.bytes,
                "digest": output.digest,
                "event_time_min_us": output.event_time_min_us,
                "event_time_max_us": output.event_time_max_us,
                "incarnation": 1,
                "published_at_s": 1e9 + e,
            }

    def claim_rows() -> Iterator[dict[str, Any]]:
        for e in range(1, epochs + 1):
            spans = f'{{"lines":{{"after":{e - 1},"through":{e}}}}}'
            yield {"fragment": "counts", "epoch": e, "spans": spans, "incarnation": 1, "claimed_at_s": 1e9 + e}

    for table, rows in (
        (described.epochs, epoch_rows("lines", epochs + ahead)),
        (described.epochs, epoch_rows("counts", epochs)),
        (described.claims, claim_rows()),
    ):
        columns = [column.name for column in table.c]
        if tx.dialect.name == "postgresql":
            cursor = tx.connection.cursor()
            with cursor.copy(f"COPY {table.fullname} ({', '.join(columns)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row([row[name] for name in columns])
        else:
            pending: list[dict[str, Any]] = []
            for row in rows:
                pending.append(row)
                if len(pending) == 10_000:
                    tx.execute(insert(table), pending)
                    pending.clear()
            if pending:
                tx.execute(insert(table), pending)


def prepare(database: str, url: str | None, folder: Path, epochs: int, turns: int) -> Case:
    pipeline = f"bench_{epochs}"
    home = Home(folder, pipeline, pipeline, "sqlite" if url is None else "postgresql")
    keeper = open_keeper(url, home=home)
    by = keeper.enlist("n1", code="")
    keeper.record_stream(StreamRecord("lines", "lines", "{}", (), "precise"))
    keeper.record_stream(StreamRecord("counts", "counts", "{}", ("lines",), "precise"))
    began = time.monotonic()
    described = tables(None if url is None else schema_name(pipeline))
    keeper._store.write(lambda tx: history(described, tx, epochs, turns))
    print(f"{database}: {epochs:,} epochs put on record in {time.monotonic() - began:.1f} s", file=sys.stderr)
    return Case(database, epochs, keeper, by, epochs)


def measure(cases: list[Case], turns: int) -> None:
    for case in cases:
        for _ in range(ROUND):  # connections, prepared statements and caches are warm in a node as well
            case.turn()
        case.claim_ms.clear()
        case.publish_ms.clear()
    for _ in range(turns // ROUND):
        for case in cases:
            for _ in range(ROUND):
                case.turn()


def show(figures: list[dict[str, Any]]) -> None:
    print(f"{'database':<12}{'epochs':>10} {'claim':>16} {'publish':>16} {'claim+publish':>16}   target")
    print(f"{'':<22} {'median  p99 ms':>16} {'median  p99 ms':>16} {'median  p99 ms':>16}")
    for row in figures:
        pairs = " ".join(
            f"{row[f'{n}_median_ms']:>8.2f}{row[f'{n}_p99_ms']:>8.2f}" for n in ("claim", "publish", "both")
        )
        target = TARGET_MS[row["database"]]
        verdict = "ok" if row["both_median_ms"] < target else "MISSED"
        print(f"{row['database']:<12}{row['epochs']:>10,} {pairs}   < {target:g} ms {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10,000 epochs instead of 1,000,000")
    parser.add_argument("--epochs", type=int, default=2_000, help="epochs measured in each case")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    turns = max(ROUND, options.epochs // ROUND * ROUND)
    long = 10_000 if options.quick else 1_000_000
    cases: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as temporary, PostgresServer() as server:
        for database, url in (("SQLite", None), ("PostgreSQL", server.url)):
            for epochs in (SHORT, long):
                folder = Path(temporary) / f"{database}-{epochs}"
                folder.mkdir()
                cases.append(prepare(database, url, folder, epochs, turns + ROUND))
        measure(cases, turns)
        figures = [case.figures() for case in cases]
        for case in cases:
            case.keeper.close()
    show(figures)
    if options.json is not None:
        options.json.write_text(json.dumps({"bench": "keeper", "cases": figures}, indent=1) + "\n")
    return 0 if all(row["both_median_ms"] < TARGET_MS[row["database"]] for row in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
