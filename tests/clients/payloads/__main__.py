"""Ill-formed payloads of every codec before Kafka's classes and Produce, many of them.

`python -m tests.clients.payloads --frames 100000 --seed 0`: so many of each codec. Prints a table;
fails at a difference. `--first` goes on from a number.
"""

import argparse
import sys

from tests.clients.payloads.differential import table, tallies


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.payloads", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    by_codec = tallies(options.seed, options.first, options.frames)
    sys.stdout.write(f"{table(by_codec)}\n")
    return 1 if any(tally.differences for tally in by_codec.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
