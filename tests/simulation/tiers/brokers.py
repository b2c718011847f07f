"""What brokers run of the second tier: trimming that asks tables."""

import asyncio
from functools import partial

from broker.cluster.controller import Controller
from broker.cluster.settings import ControllerSettings
from broker.trimming import Trimming
from logstore.config.broker import BrokerSettings
from logstore.log.asked_tables import TablesInThreads
from logstore.log.log import Log
from logstore.objects.from_threads import FromThreads
from tests.simulation.tiers.world import TierWorld, open_tables

TRIM_PERIOD_S = 1.5
STORE_TIMEOUT_S = 15.0


class HurriedSettings(BrokerSettings):
    """With a grace below the least that users may set."""

    def __init__(self, grace_ms: int) -> None:
        super().__init__()
        self._grace_ms = grace_ms

    def number(self, name: str, by_store: int = 0) -> int:
        if name == "logstore.delete.grace.ms":
            return self._grace_ms
        return super().number(name, by_store)


def attach(world: TierWorld, log: Log, tasks: asyncio.TaskGroup) -> None:
    """There are no sockets here, so the lease alone tells of deaths."""
    controller = Controller(log, ControllerSettings.of(BrokerSettings()))
    world.controllers[log] = controller
    tasks.create_task(controller.run())
    settings = HurriedSettings(int(world.plan.grace_s * 1000))
    loop = asyncio.get_running_loop()
    store = FromThreads(log.performer.store, loop, timeout_s=STORE_TIMEOUT_S)
    trimming = Trimming(
        log, settings, lambda: controller.is_active, TablesInThreads(partial(open_tables, store))
    )
    tasks.create_task(_trim(world, trimming))


async def _trim(world: TierWorld, trimming: Trimming) -> None:
    """As `Trimming.run`, in more of a hurry."""
    while True:
        await world.clock.sleep_s(TRIM_PERIOD_S * (0.75 + world.chance.random() / 2))
        before = trimming.published_count, trimming.deleted_count
        await trimming.trim_once()
        world.seen["trim points"] += trimming.published_count - before[0]
        world.seen["segments deleted"] += trimming.deleted_count - before[1]
