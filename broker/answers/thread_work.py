"""Runs work in a thread, whose time counts as its client's (`request_percentage`)."""

from collections.abc import Callable
from typing import TypeVar

from broker.answers.broker import Broker
from broker.network.call import Call

T = TypeVar("T")


async def run_in_thread(broker: Broker, call: Call, work: Callable[[], T]) -> T:
    """The result of `work`; not the time that it waited for a thread is counted."""
    now_s = broker.loop.time
    took_s = 0.0

    def measured() -> T:
        nonlocal took_s
        began_s = now_s()
        try:
            return work()
        finally:
            took_s = now_s() - began_s

    try:
        return await broker.loop.run_in_executor(None, measured)
    finally:
        broker.clients.note_time(call, took_s)
