"""The queries as Flink SQL, over tables named like the inputs, with a watermark on ``ts``. Time zone UTC."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TUMBLE = "TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '{{window_s}}' SECOND(3)))"
START_MS = "CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', window_start) AS BIGINT) * 1000 AS start_ms"
BIDS, AUCTIONS, PEOPLE = (TUMBLE.format(table=table) for table in ("bid", "auction", "person"))

HOT = """
    SELECT window_start, window_end, auction, COUNT(*) AS n
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '{slide_s}' SECOND(3), INTERVAL '{window_s}' SECOND(3)))
    GROUP BY window_start, window_end, auction
"""
TOP = """
    SELECT auction, rank_number, price, bidder, seq FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, seq ASC) AS rank_number FROM bid
    ) WHERE rank_number <= 10
"""

FLINK: Mapping[str, str] = MappingProxyType(
    {
        "q0": "SELECT seq, auction, bidder, price, channel, url, at_ms FROM bid",
        "q1": "SELECT seq, auction, bidder, CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE) AS price, at_ms FROM bid",
        "q2": "SELECT seq, auction, price FROM bid WHERE MOD(auction, 123) = 0",
        "q3": """
            SELECT a.id AS auction, p.name, p.city, p.state, GREATEST(a.seq, p.seq) AS seq
            FROM auction AS a JOIN person AS p ON a.seller = p.id
            WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
        """,
        "q4": f"""
            SELECT {START_MS}, category, auctions, total, CAST(total AS DOUBLE) / auctions AS average FROM (
                SELECT window_start, category, COUNT(*) AS auctions, SUM(final) AS total
                FROM (
                    SELECT window_start, window_end, id, category, MAX(price) AS final
                    FROM TABLE(TUMBLE((
                        SELECT a.ts, a.id, a.category, b.price FROM auction AS a JOIN bid AS b
                        ON a.id = b.auction AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '{{open_s}}' SECOND(3)
                            AND b.at_ms BETWEEN a.at_ms AND a.expires_ms
                    ), DESCRIPTOR(ts), INTERVAL '{{window_s}}' SECOND(3)))
                    GROUP BY window_start, window_end, id, category
                )
                GROUP BY window_start, window_end, category
            )
        """,
        "q5": f"""
            SELECT {START_MS}, auction, n FROM (
                SELECT counts.window_start, counts.auction, counts.n
                FROM ({HOT}) AS counts
                JOIN (
                    SELECT window_start, window_end, MAX(n) AS most FROM ({HOT}) GROUP BY window_start, window_end
                ) AS best
                ON counts.window_start = best.window_start AND counts.window_end = best.window_end
                    AND counts.n = best.most
            )
        """,
        "q7": f"""
            SELECT {START_MS}, seq, auction, bidder, price FROM (
                SELECT *, ROW_NUMBER() OVER (
                    PARTITION BY window_start, window_end ORDER BY price DESC, seq ASC
                ) AS place FROM {BIDS}
            ) WHERE place = 1
        """,
        "q8": f"""
            SELECT {START_MS}, id, name, auctions FROM (
                SELECT p.window_start, p.id, p.name, a.auctions
                FROM (
                    SELECT window_start, window_end, id, name FROM {PEOPLE}
                    GROUP BY window_start, window_end, id, name
                ) AS p
                JOIN (
                    SELECT window_start, window_end, seller, COUNT(*) AS auctions FROM {AUCTIONS}
                    GROUP BY window_start, window_end, seller
                ) AS a
                ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end
            )
        """,
        "q11": """
            SELECT bidder, MIN(at_ms) AS start_ms, MAX(at_ms) + {gap_s} * 1000 AS end_ms, COUNT(*) AS n
            FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '{gap_s}' SECOND(3)))
            GROUP BY bidder, window_start, window_end
        """,
        "q12": """
            SELECT start_ms, bidder, COUNT(*) AS n, MAX(seq) AS seq
            FROM (SELECT UNIX_TIMESTAMP() / {window_s} * {window_s} * 1000 AS start_ms, bidder, seq FROM bid)
            GROUP BY start_ms, bidder
        """,
        "q17": """
            SELECT auction, at_ms - MOD(at_ms, 86400000) AS start_ms, COUNT(*) AS n,
                   COUNT(*) FILTER (WHERE price < 10000) AS cheap,
                   COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
                   COUNT(*) FILTER (WHERE price >= 1000000) AS dear,
                   MIN(price) AS lowest, MAX(price) AS highest, SUM(price) AS total,
                   CAST(SUM(price) AS DOUBLE) / COUNT(*) AS average, MAX(seq) AS seq
            FROM bid GROUP BY auction, at_ms - MOD(at_ms, 86400000)
        """,
        "q18": """
            SELECT bidder, auction, price, at_ms, seq FROM (
                SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY seq DESC) AS place FROM bid
            ) WHERE place = 1
        """,
        "q19": f"""
            SELECT best.auction, CAST(best.rank_number AS INT) AS `rank`, best.price, best.bidder, best.seq,
                   MAX(better.seq) AS changed
            FROM ({TOP}) AS best JOIN ({TOP}) AS better
            ON best.auction = better.auction AND better.rank_number <= best.rank_number
            GROUP BY best.auction, best.rank_number, best.price, best.bidder, best.seq
        """,
        "q20": """
            SELECT b.seq, b.auction, b.bidder, b.price, a.item, a.seller, a.reserve
            FROM bid AS b JOIN auction AS a ON b.auction = a.id WHERE a.category = 10
        """,
    }
)
