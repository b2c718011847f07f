"""Plays one seed again and tells what happened.

    python -m tests.simulation.replay [--cluster] SEED [WORD…]

Prints the trace (only lines with one of the words, if any are given), then what was violated.
"""

import random
import sys

from tests.simulation.plan import draw_cluster_plan
from tests.simulation.story import play


def main(arguments: list[str]) -> int:
    is_cluster = arguments[0] == "--cluster"
    seed, *words = arguments[is_cluster:]
    plan = draw_cluster_plan(random.Random(int(seed))) if is_cluster else None
    world = play(int(seed), plan)
    for line in world.lines:
        if not words or any(word in line for word in words):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{world.plan}\n")
    for violation in world.violations:
        sys.stdout.write(f"violated {violation}\n")
    return 1 if world.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
