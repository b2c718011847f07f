"""Ill-formed payloads of every codec before Kafka's classes and Produce, many of them.

`python -m tests.clients.payloads --frames 100000 --seed 0`: so many of each codec, from number
`--first` on, and small ones of every form with each byte changed, and cut at each byte. Prints a
table of each; fails at a difference.
"""

import argparse
import sys
from functools import partial

from tests.clients.payloads.differential import some_frames, table, tallies
from tests.clients.payloads.frames import each_damage


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.payloads", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.frames)
    differences = 0
    for title, frames_of in (
        ("any payloads", some_frames(options.seed, numbers)),
        ("each byte damaged", partial(each_damage, options.seed)),
    ):
        by_codec = tallies(frames_of)
        sys.stdout.write(f"{title}\n{table(by_codec)}\n")
        sys.stdout.flush()
        differences += sum(len(tally.differences) for tally in by_codec.values())
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
