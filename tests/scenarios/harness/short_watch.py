"""`logstore`, but `restore` watches for living brokers for a moment: a test has ended them all.

    python -m tests.scenarios.harness.short_watch ARGUMENTS OF logstore

An operator's `restore` watches heartbeats for twice the term of a lease.
"""

import sys
from collections.abc import Sequence

from logstore.cli.main import main
from logstore.restore import run

WATCH_S = 0.1


def main_with_short_watch(arguments: Sequence[str]) -> int:
    before, run.WATCH_S = run.WATCH_S, WATCH_S
    try:
        return main(list(arguments))
    finally:
        run.WATCH_S = before


if __name__ == "__main__":
    sys.exit(main_with_short_watch(sys.argv[1:]))
