"""Sets wall clocks of machines forward and back while brokers are at work."""

from tests.simulation.tiers.clocks import draw_jump_ms
from tests.simulation.tiers.world import TierWorld

CLOCKS_MAX = 12
"""Of the newest clocks one is set; those before belong to brokers that are gone."""


class Clocks:
    def __init__(self, world: TierWorld) -> None:
        self._world = world

    async def run(self) -> None:
        world, rng = self._world, self._world.rng
        while not world.is_healed:
            await world.clock.sleep_s(rng.uniform(0, 8))
            clock = rng.choice(world.clocks[-CLOCKS_MAX:])
            before, clock.ahead_ms = clock.ahead_ms, draw_jump_ms(rng)
            moved_ms = clock.ahead_ms - before
            if moved_ms:
                kind = "forward" if moved_ms > 0 else "back"
                world.trace(f"a clock is set {kind} by {moved_ms / 1000:g} s")
                world.seen[f"clock set {kind}"] += 1
