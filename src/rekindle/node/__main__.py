"""The entry of a node's process: ``python -m rekindle.node FILE --home DIR --node NAME --incarnation N``."""

from __future__ import annotations

import sys

from rekindle.node.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
