"""A person who takes deleted objects back from the store's trash, at any moment and for no reason.

Segments and checkpoints below a trim point, files that compaction or the owner of a table removed,
entries of a table's log: whatever comes back is superseded, and may neither be read in place of
what superseded it nor raise an alarm.
"""

from logstore.ports.trash import DeletedObject
from tests.simulation.tiers.world import LASTING, TierWorld

PAUSE_S_MAX = 10.0
AT_ONCE_MAX = 5


class TakingBack:
    def __init__(self, world: TierWorld) -> None:
        self._world = world

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, PAUSE_S_MAX))
            kinds: dict[str, list[DeletedObject]] = {}
            for one in world.objects.deleted(""):
                if one.key.startswith(LASTING):
                    kinds.setdefault(one.key.split("/")[0], []).append(one)
            if not kinds:
                continue
            deleted = kinds[rng.choice(sorted(kinds))]
            for one in rng.sample(deleted, min(len(deleted), rng.randint(1, AT_ONCE_MAX))):
                if world.objects.undelete(one):
                    world.trace(f"taken back: {one.key}")
                    world.seen[f"taken back: {one.key.split('/')[0]}"] += 1
