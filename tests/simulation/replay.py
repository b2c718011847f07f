"""Plays one seed again and tells what happened: python -m tests.simulation.replay SEED [WORD…]

Prints the trace (only lines with one of the words, if any are given), then what was violated.
"""

import sys

from tests.simulation.story import play


def main(arguments: list[str]) -> int:
    seed, *words = arguments
    world = play(int(seed))
    for line in world.lines:
        if not words or any(word in line for word in words):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{world.plan}\n")
    for violation in world.violations:
        sys.stdout.write(f"violated {violation}\n")
    return 1 if world.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
