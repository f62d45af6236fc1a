"""One process of a race: opens the keeper, says 'ready', waits for a line, runs, and prints what it saw.

    python -m tests.keeper.racer FOLDER PIPELINE HOME URL|- NODE EPOCHS

It claims and publishes each epoch with a proposal of its own, and goes on with what is in force.
EPOCHS 0 is: without end, until it is fenced.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rekindle.errors import Fenced
from rekindle.home import Home
from rekindle.keeper import open_keeper
from rekindle.keeper.records import EpochNumber, Span
from tests.keeper.place import output


def main(folder: str, pipeline: str, home_id: str, url: str, node: str, epochs: str) -> None:
    home = Home(Path(folder), pipeline, home_id, "sqlite" if url == "-" else "postgresql")
    keeper = open_keeper(None if url == "-" else url, home=home, patience_s=30)
    by = keeper.enlist(node, code="")
    print(json.dumps({"ready": by}), flush=True)
    sys.stdin.readline()
    claims: list[str] = []
    won: list[int] = []
    published: list[str] = []
    epoch, position, fenced = 0, None, False
    while epoch < int(epochs) or epochs == "0":
        epoch += 1
        try:
            span = Span(position, f"{node}-{epoch}")
            claim = keeper.claim("f", EpochNumber(epoch), {"outside": span}, by=by)
            answer = keeper.publish("f", EpochNumber(epoch), {"f": output(f"{node}-{epoch}")}, by=by)
        except Fenced:
            fenced = True
            break
        position = claim.spans["outside"].through
        claims.append(position)
        if answer.won:
            won.append(epoch)
        published.append(answer.epochs["f"].output.segments[0].path)
    keeper.close()
    print(json.dumps({"claims": claims, "won": won, "published": published, "fenced": fenced}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
