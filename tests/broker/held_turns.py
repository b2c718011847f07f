"""Turns on the event loop that a test lets go one by one."""

from itertools import count

from broker.network.turns import SLICE_S, Step, Turns
from tests.broker.running import Running


class HeldTurns(Turns):
    """Slices of four items; the next one runs when it is let go."""

    def __init__(self, running: Running) -> None:
        ticks = count()
        holds = running.broker.clients.holds
        super().__init__(running.broker.loop, holds, lambda: next(ticks) * SLICE_S / 4)
        self.steps: list[Step] = []
        self.is_held = True

    def _wait(self, step: Step) -> None:
        if self.is_held:
            self.steps.append(step)
        else:
            super()._wait(step)

    def let_go(self) -> None:
        self.is_held = False
        steps, self.steps = self.steps, []
        for step in steps:
            super()._wait(step)
