"""The lease on a registry that loses, delays and repeats: at most one acts, and soon one does."""

import asyncio
import random
from collections import Counter

import pytest

from logstore.errors import LogstoreError
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.protocol.leading.lease import Lease
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import StepRunner
from logstore.testing.simulated_rows import RowFaults, SimulatedRows
from logstore.testing.virtual_loop import VirtualClock, run

LEASE_S = 3.0
FAULTS_S = 120.0
HEALED_WITHIN_S = 10.0


class Contest:
    """Three brokers step in turn with the registry's moods; an observer looks on all the while."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        faults = RowFaults(throttled=0.1, lost=0.1, answer_lost=0.1, late=0.1, slow=0.1)
        self.rows = SimulatedRows(MemoryRows(), self.rng, faults, Counter(), lambda text: None)
        self.leases = [
            Lease("controller", owner=number, owner_epoch=number, lease_s=LEASE_S)
            for number in range(3)
        ]

    @property
    def holders(self) -> list[Lease]:
        return [lease for lease in self.leases if lease.holds(self.clock.monotonic_s())]

    async def contend(self, lease: Lease) -> None:
        registry = RetryingRegistry(
            self.rows, lambda: f"{self.rng.getrandbits(64)}", self.clock, self.rng
        )
        store = MemoryStore(MemoryObjects(self.clock))
        runner = StepRunner(store, registry, self.clock, self.rng, lambda: b"")
        while True:
            if self.rng.random() < 0.05:
                await self.clock.sleep_s(self.rng.uniform(0, 3 * LEASE_S))  # stands still
            try:
                async with asyncio.timeout(LEASE_S):
                    now_s = self.clock.monotonic_s()
                    await runner.run(lease.step(now_s, lambda *life: False))
            except (LogstoreError, TimeoutError):
                pass  # as its runner does
            await self.clock.sleep_s(LEASE_S / 3 * self.rng.uniform(0.8, 1.0))

    async def play(self) -> float:
        """How long no broker held it at the worst, after all was healed."""
        tasks = [asyncio.get_running_loop().create_task(self.contend(one)) for one in self.leases]
        while self.clock.monotonic_s() < FAULTS_S:
            await self.clock.sleep_s(0.05)
            assert len(self.holders) <= 1
        self.rows.faults = RowFaults()
        vacant_s = 0.0
        while not self.holders:
            await self.clock.sleep_s(0.05)
            vacant_s += 0.05
        for task in tasks:
            task.cancel()
        return vacant_s


@pytest.mark.seeds(40)
def test_at_most_one_holds_it_and_soon_one_does(seed: int) -> None:
    async def main() -> float:
        return await Contest(seed).play()

    assert run(main()) <= HEALED_WITHIN_S
