"""`logstore fsck --data` calls every world broken that the checker calls broken, and no other."""

import random
from collections import Counter

import pytest

from tests.simulation.tiers.oracle import HARMS, break_and_ask
from tests.simulation.tiers.story import play_tiers

EACH = 3


def _compared(seed: int) -> tuple[Counter[tuple[bool, bool]], list[str]]:
    """How often (checker, fsck) called a copy of one world broken; those they differ on."""
    world = play_tiers(seed)
    assert not world.violations, seed
    rng = random.Random(seed)
    counts: Counter[tuple[bool, bool]] = Counter()
    differing = []
    for harm in HARMS:
        for _ in range(1 if harm == "none" else EACH):
            reported = break_and_ask(world, rng, harm)
            counts[bool(reported.checker), bool(reported.fsck)] += 1
            if not reported.agree:
                differing.append(f"{reported.harm}: {reported.checker[:2]} {reported.fsck[:2]}")
    return counts, differing


@pytest.mark.slow
@pytest.mark.seeds(3)
def test_fsck_and_the_checker_agree(seed: int) -> None:
    _, differing = _compared(seed + 7_000)
    assert not differing


@pytest.mark.slow
def test_both_kinds_of_worlds_are_met() -> None:
    counts: Counter[tuple[bool, bool]] = Counter()
    for seed in range(7_100, 7_104):
        found, differing = _compared(seed)
        assert not differing, seed
        counts.update(found)
    assert counts[True, True] > 15
    assert counts[False, False] > 5
