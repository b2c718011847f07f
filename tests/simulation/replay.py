"""Plays one seed again and tells what happened.

    python -m tests.simulation.replay [--cluster|--tiers] SEED [WORD…]

Prints the trace (only lines with one of the words, if any are given), then what was violated.
"""

import random
import sys

from tests.simulation.plan import draw_cluster_plan
from tests.simulation.story import play
from tests.simulation.world import World


def main(arguments: list[str]) -> int:
    kind, *rest = arguments if arguments[0].startswith("--") else ["", *arguments]
    seed, words = int(rest[0]), rest[1:]
    if kind == "--tiers":
        from tests.simulation.tiers.story import play_tiers

        world: World = play_tiers(seed)
    else:
        plan = draw_cluster_plan(random.Random(seed)) if kind == "--cluster" else None
        world = play(seed, plan)
    for line in world.lines:
        if not words or any(word in line for word in words):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{world.plan}\n")
    history, sent = world.history, world.seen["batches sent"]
    sys.stdout.write(
        f"batches acknowledged={history.acked_count} sent={sent} records read={history.read_count} "
        f"bytes held at most={world.held_bytes_max} of one broker\n"
    )
    for violation in world.violations:
        sys.stdout.write(f"violated {violation}\n")
    return 1 if world.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
