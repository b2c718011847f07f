"""Plays one seed again and prints what happened.

    python -m tests.simulation.replay [--cluster|--tiers|--names] SEED [WORD…]

Prints the trace (only lines with one of the words, if any are given), the digest of all of it, then
what was violated. Both are the same in every process: sets are never walked where order matters.
"""

import os
import random
import subprocess
import sys

from tests.simulation.plan import draw_cluster_plan
from tests.simulation.story import play
from tests.simulation.world import World

DIGEST = "digest "
HASH_SEED = "1"
"""Of strings and bytes in the other process. pytest's own is another one, drawn at its start."""
CHILD_TIMEOUT_S = 500


def main(arguments: list[str]) -> int:
    kind, *rest = arguments if arguments[0].startswith("--") else ["", *arguments]
    seed, words = int(rest[0]), rest[1:]
    if kind == "--tiers":
        from tests.simulation.tiers.story import play_tiers

        world: World = play_tiers(seed)
    elif kind == "--names":
        from tests.simulation.names import play_names

        world = play_names(seed)
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
    sys.stdout.write(f"{DIGEST}{world.digest}\n")
    for violation in world.violations:
        sys.stdout.write(f"violated {violation}\n")
    return 1 if world.violations else 0


def digest_elsewhere(kind: str, seed: int) -> str:
    """The digest as a process gives it that hashes strings and places objects in its own way."""
    command = [sys.executable, "-m", "tests.simulation.replay", kind, str(seed), "no such word"]
    played = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": HASH_SEED},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    digests = [line for line in played.stdout.splitlines() if line.startswith(DIGEST)]
    assert digests, played.stderr
    return digests[0].removeprefix(DIGEST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
