"""Records that a restore cannot tell from lost ones: when fsck may call a whole world broken."""

import random

from logstore.formats.keys import checkpoint_key
from logstore.history.forms.names import entry_key
from logstore.protocol.rules.checks import Problem, ProblemKind
from logstore.testing.history import Partition
from logstore.testing.virtual_loop import run
from tests.golden import samples
from tests.simulation.tiers.fsck import were_deleted_before
from tests.simulation.tiers.plan import draw_tier_plans
from tests.simulation.tiers.world import TierWorld

PARTITION = Partition(samples.TOPIC_ID, samples.key().partition)
END = 45
"""Of the partition's records below the checkpoint at seq 2 of chain 5."""
LOST = Problem(
    ProblemKind.LOST,
    "row chain/5",
    f"trim=2 topic={PARTITION.topic_id.hex()} partition={PARTITION.number}: not in a table",
    (5,),
)


def judged(
    problem: Problem = LOST, *, log_start: int = END, disasters: int = 1, has_table: bool = True
) -> bool:
    """Whether the judge passes it by in a world whose log once began at `log_start`."""

    async def main() -> bool:
        world = TierWorld(0, *draw_tier_plans(random.Random(0)))
        world.objects.create(checkpoint_key(5, 2), [samples.golden("checkpoint-1")])
        if has_table:
            world.objects.create(entry_key(PARTITION.topic_id, 0), [b"{}"])
        world.history.ask_log_start(PARTITION, log_start)
        world.disasters = disasters
        return were_deleted_before(world, problem)

    return run(main())


def test_records_that_were_deleted_before_older_rows_came_back_are_no_loss() -> None:
    assert judged()


def test_a_record_above_every_log_start_is_lost() -> None:
    assert not judged(log_start=END - 1)


def test_without_older_rows_they_are_lost() -> None:
    assert not judged(disasters=0)


def test_without_a_table_a_restore_knows_that_they_were_deleted() -> None:
    assert not judged(has_table=False)


def test_damage_of_another_kind_is_never_passed_by() -> None:
    assert not judged(LOST._replace(what=ProblemKind.TRIMMED_TOO_FAR))
