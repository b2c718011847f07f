"""Fencing checks of a broker that may have been replaced (safety rule 9), and where they begin."""

import asyncio

from broker.answers.broker import Broker
from broker.answers.fence_check import check_not_sealed, fence_check_of
from logstore.wire.errors import ErrorCode


async def check_before(broker: Broker) -> None:
    """Without a read lease, raises what a fencing check finds.

    A broker that was fenced goes on: it finds that it leads and coordinates nothing.
    """
    if not broker.log.has_read_lease:
        await enter_task(broker)
        async with broker.store_reads:
            error = await check_not_sealed(broker.log)
        if error is not None and not broker.log.fenced.is_set():
            raise error


async def check_after(broker: Broker) -> None:
    """The same if the lease ran out since; while it held, all that was read was right.

    So it was if the broker was fenced before: it says that it leads nothing.
    """
    if not broker.log.has_read_lease:
        await enter_task(broker)
        async with broker.store_reads:
            error = await check_not_sealed(broker.log)
        if error is not None:
            raise error


async def fence_code(broker: Broker) -> ErrorCode:
    """Makes a fencing check. Returns NONE, or the code to answer."""
    await enter_task(broker)
    async with broker.store_reads:
        return await fence_check_of(broker.log)


async def enter_task(broker: Broker) -> None:
    """Goes on in a task: time-outs and groups of tasks begin in one alone (`requests.steps`)."""
    if asyncio.current_task() is None:
        await broker.turns.turn()
