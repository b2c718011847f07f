"""What brokers of a world with both tiers ask of tables, as `broker.process.serve` has it."""

import asyncio
from functools import partial

from logstore.epoch.asked_tables import TablesInThreads
from logstore.objects.from_threads import FromThreads
from logstore.runners.perform import Performer
from tests.simulation.tiers.tables import open_tables

TRIM_PERIOD_S = 1.5
STORE_TIMEOUT_S = 15.0


def asked_tables(performer: Performer) -> TablesInThreads:
    loop = asyncio.get_running_loop()
    store = FromThreads(performer.store, loop, timeout_s=STORE_TIMEOUT_S)
    return TablesInThreads(partial(open_tables, store))
