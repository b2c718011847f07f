"""Waits for an event, but not for ever."""

import asyncio


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Until `event`, which is cleared then, or for so long."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
    event.clear()
