"""Brokers, compaction, trimming and Spark on one log; brokers and runs die, stores misbehave.

As `tests.simulation.test_cluster`, with tables: what compaction moved is trimmed a grace later, and
readers plan now and read when it has gone. A failing seed is played again by

    python -m tests.simulation.replay --tiers SEED
"""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.simulation.replay import digest_elsewhere
from tests.simulation.tiers.story import play_tiers

MUST_BE_SEEN = (
    # of compaction
    "rows moved",
    "files merged",
    "files expired",
    "compaction busy",
    "compaction killed",
    "compaction frozen",
    "runs abandoned",
    # of trimming
    "trim points",
    "segments deleted",
    "chain trimmed",
    "records deleted",
    # of retention, by brokers whose wall clocks are wrong
    "log start raised by retention",
    "log start raised by retention.bytes",
    "retention while a clock is ahead",
    "clock set forward",
    "clock set back",
    "started with a clock ahead",
    # of the owner of a table
    "owner's OPTIMIZE",
    "owner's DELETE",
    "owner's VACUUM",
    "rows deleted by an owner",
    "files vacuumed by an owner",
    "planned before and read after: owner's DELETE",
    "planned before and read after: owner's OPTIMIZE",
    "planned before and read after: owner's VACUUM",
    # of `logstore gc`
    "gc done",
    "gc killed",
    "trim points of gc",
    "segments deleted by gc",
    "gc on an old registry",
    # of a registry that is lost or old
    "registry lost",
    "registry put back from a copy",
    "half a copy of the registry",
    "refused an old registry",
    "restored",
    "restore killed",
    "planned before and read after: restore",
    "fsck beside brokers",
    "query ended by an old registry",
    "stream batches on an old registry",
    # of machines that sleep for longer than leases, graces and time-outs last
    "machine suspended",
    "woken: life",
    "woken: compaction",
    "woken: gc",
    "woken: owner",
    "woken: driver",
    "woken: executor",
    "slept through: move",
    "slept through: trim",
    "slept through: merge",
    "slept through: owner's DELETE",
    # of deleted objects that come back
    "taken back: chains",
    "taken back: tables",
    # of readers that planned before
    "planned before and read after: move",
    "planned before and read after: trim",
    "planned before and read after: merge",
    "planned before and read after: expiry",
    "planned before and read after: DeleteRecords",
    "planned before and read after: retention",
    "pieces cut between tasks",
    "tasks run twice",
    "stream batches",
    "batches replayed",
    "driver died between two calls",
    "query refused: records are gone",
    "404 in executor: chains",
    "404 in executor: tables",
    "404 in driver: tables",
    "404 in compaction: tables",
    "404 in life: chains",
    "executor killed",
    "driver killed",
)
SHOW_MOST = (20_015, 20_096, 20_092, 20_093, 20_087, 20_023)
"""Seeds that showed all of it between them, least CPU time of those tried; played first. After a
change of the simulated world others may be needed: they are played next, and the test says so."""


@pytest.mark.seeds(2, fast=0)
def test_both_tiers_are_one_log(seed: int) -> None:
    """Two seeds beside those of the next test, which claims it of each; a campaign plays many."""
    world = play_tiers(seed)
    assert not world.violations, f"play it again: python -m tests.simulation.replay --tiers {seed}"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # `make test` plays it at the lowest priority, beside other tiers
@pytest.mark.seeds(10, daily=True)
def test_nor_by_seeds_that_no_run_has_played(seed: int) -> None:
    world = play_tiers(seed)
    assert not world.violations, f"play it again: python -m tests.simulation.replay --tiers {seed}"


@pytest.mark.slow
def test_the_seeds_see_everything_that_matters(tell: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    for played, seed in enumerate(dict.fromkeys((*SHOW_MOST, *range(5_000, 5_040))), 1):
        world = play_tiers(seed)
        assert not world.violations, seed
        seen.update(world.seen)
        if all(seen[what] for what in MUST_BE_SEEN):
            if played > len(SHOW_MOST):
                tell(f"SHOW_MOST shows it all no more: {played} seeds played, the last is {seed}")
            break
    assert not [what for what in MUST_BE_SEEN if not seen[what]]


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_a_number_plays_the_same_in_another_process(number: int) -> None:
    assert digest_elsewhere("--tiers", number) == play_tiers(number).digest
