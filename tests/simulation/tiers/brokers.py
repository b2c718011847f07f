"""What brokers of a world with both tiers ask of tables, as `broker.process.serve` has it."""

import asyncio
from functools import partial

from logstore.epoch.table_queries import ThreadedTableQueries
from logstore.objects.from_threads import FromThreads
from logstore.runners.step_runner import StepRunner
from tests.simulation.tiers.tables import open_tables

TRIM_PERIOD_S = 1.5
STORE_TIMEOUT_S = 15.0


def table_queries(runner: StepRunner) -> ThreadedTableQueries:
    loop = asyncio.get_running_loop()
    store = FromThreads(runner.store, loop, timeout_s=STORE_TIMEOUT_S)
    return ThreadedTableQueries(partial(open_tables, store))
