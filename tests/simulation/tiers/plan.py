"""What one seed of a world with both tiers does, beside what `tests.simulation.plan` draws."""

import random
from dataclasses import dataclass, replace

from tests.simulation.plan import Plan, draw_plan


@dataclass(frozen=True, slots=True)
class TierPlan:
    compactors: int
    """Schedulers that run compaction, each on a machine of its own."""
    compaction_pause_s: float
    """At most, between two runs of one."""
    task_bytes: int
    batches: int
    """Spark drivers that plan a batch and have its tasks run later."""
    streams: int
    late_s: float
    """At most, between the plan of a batch and its tasks."""
    loses_registry: bool
    """Whether the registry is lost, or put back from a copy, and restored."""
    deletes: bool
    """Whether records are deleted."""
    collects: bool
    """Whether `logstore gc` is run beside the brokers."""
    owner_pause_s: float
    """At most, between two things that the owner of a table does to it; 0: he does nothing."""
    keeps_s: float = 0.0
    """The `retention.ms` of topics that have one; 0: none has."""
    clocks_jump: bool = False
    """Whether wall clocks are set forward and back, by up to a month, and are wrong at a start."""
    suspends: float = 0.0
    """Share of processes, other than brokers, that are suspended for long at one of their steps;
    if it is not 0, brokers are suspended too."""
    takes_back: bool = False
    """Whether deleted objects come back at any moment, and `logstore restore` has the trash."""


def draw_tier_plans(rng: random.Random) -> tuple[Plan, TierPlan]:
    plan = draw_plan(rng)
    plan = replace(
        plan,
        # Entries of a table's log have no checksum: what a flipped bit makes of them is not seen.
        store=replace(plan.store, get_flipped=0.0, get_short=0.0),
        flips_bits=False,
        brokers=rng.choice((1, 2, 2, 3)),
        partitions=rng.randint(1, 4),
        moves=rng.random() < 0.4,
        replicas=rng.randint(1, 2),
        follower_reads=rng.choice((0.0, 0.3)),
        grace_s=rng.choice((1.0, 3.0, 10.0)),
        faults_s=rng.uniform(20, 60),
        clocks_differ=rng.random() < 0.3,
        retention_check_s=rng.choice((1.0, 3.0)),
    )
    plan = replace(plan, settings=replace(plan.settings, delete_grace_s=plan.grace_s))
    loses_registry = rng.random() < 0.4
    if loses_registry:
        plan = replace(plan, faults_s=plan.faults_s / 2)  # before it, and after it
    tiers = TierPlan(
        compactors=rng.choice((1, 1, 2)),
        compaction_pause_s=rng.choice((1.0, 3.0, 8.0)),
        task_bytes=rng.choice((500, 5_000, 1 << 20)),
        batches=rng.choice((1, 2, 4)),
        streams=rng.choice((0, 1, 2)),
        late_s=rng.choice((1.0, 15.0, 40.0)),
        loses_registry=loses_registry,
        deletes=rng.random() < 0.5,
        collects=rng.random() < 0.5,
        owner_pause_s=rng.choice((0.0, 2.0, 6.0)),
        keeps_s=rng.choice((0.0, 0.0, 8.0, 20.0)),
        clocks_jump=rng.random() < 0.4,
        suspends=rng.choice((0.0, 0.0, 0.1)),
        takes_back=rng.random() < 0.4,
    )
    return plan, tiers
