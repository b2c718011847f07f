"""Machines that sleep while others go on: a laptop's lid, a virtual machine that is stopped.

A broker alone, or every process that is at work. What they knew when they wake is older than any
lease and grace. Other processes are suspended at steps of their own (`TierWorld.may_suspend`).
"""

from logstore.testing.process_loop import Process
from tests.simulation.tiers.world import SUSPENDED_S, TierWorld

PAUSE_S_MAX = 30.0


class Suspends:
    def __init__(self, world: TierWorld) -> None:
        self._world = world

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, PAUSE_S_MAX))
            if world.is_rolled_back or world.is_healed:
                continue
            awake = [life.process for life in world.lives if life.is_serving]
            awake = [process for process in awake if not process.is_stopped]
            if not awake:
                continue
            chosen: list[Process] = [rng.choice(awake)]
            if rng.random() < 0.3:
                world.seen["machine suspended"] += 1
                chosen = [*awake, *(one for one in world.runs if not one.is_dead)]
            seconds = rng.uniform(*SUSPENDED_S)
            for process in chosen:
                world.suspend(process, seconds)
