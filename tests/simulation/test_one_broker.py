"""One broker that dies, stalls, doubles and comes back, on stores that misbehave.

Safety: nothing acknowledged or read is lost, moved, doubled or made up, and what is stored passes
an audit. Liveness: once everything is healed one more start serves, and every client finishes.

A failing seed is played again, alone and with its trace, by

    python -m tests.simulation.replay SEED
"""

from collections import Counter

import pytest

from tests.simulation.story import play

MUST_BE_SEEN = (
    # of the store
    "put lost",
    "put answer lost",
    "put late",
    "put doubled",
    "put throttled",
    "get failed",
    "slow",
    "answered exists, and absent",
    "own put met again",
    "late put landed",
    "put landed after its process died",
    "late put met a seal",
    # of the registry
    "row lost",
    "row answer lost",
    "row late",
    "late row landed",
    "row throttled",
    # of the chain
    "segment met a seal",
    "seal met a segment",
    "segments beyond a seal",
    "state in pieces",
    "checkpoints",
    "taken over from a checkpoint",
    "inherited across an empty stretch",
    # of the broker
    "kill",
    "kill at a step",
    "kill while a put is late",
    "pause",
    "pause and twin",
    "twin",
    "twin refused",
    "closed cleanly",
    "topics created",
    "topics deleted",
)


@pytest.mark.seeds(50, fast=1)
def test_nothing_is_lost_doubled_moved_or_made_up(seed: int) -> None:
    world = play(seed)
    assert not world.violations, f"play it again: python -m tests.simulation.replay {seed}"


@pytest.mark.slow
def test_the_seeds_see_everything_that_matters() -> None:
    """A simulation that never meets a case proves nothing about it."""
    seen: Counter[str] = Counter()
    acked = 0
    for seed in range(1_000, 1_200):
        world = play(seed)
        assert not world.violations, seed
        seen.update(world.seen)
        acked += world.history.acked_count
        if acked > 3_000 and all(seen[what] for what in MUST_BE_SEEN):
            break
    assert not [what for what in MUST_BE_SEEN if not seen[what]]
    assert acked > 3_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 8, 21])
def test_a_number_plays_the_same_twice(number: int) -> None:
    assert play(number).lines == play(number).lines
