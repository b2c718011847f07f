"""Runs work in a thread, whose time counts as its client's (`request_percentage`)."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from broker.answers.broker import Broker
from broker.network.call import Call
from broker.network.departures import has_left

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


async def run_for_client(
    broker: Broker,
    call: Call,
    work: Callable[[Callable[[], bool]], None],
    *,
    waits_for_answer: bool,
) -> bool:
    """Returns whether `work` was done for a connection that is still open.

    `work` gets a function to ask in between, and ends early once that says so. The connection is
    not read, so the loop does not notice that its client has closed it, perhaps to send the same
    request again on another. It ends here then, with all requests behind: nothing of them would be
    answered. A client that waits for no answer is served: it sends its last records and closes.
    """
    connection = call.connection
    is_left = False

    def is_over() -> bool:
        nonlocal is_left
        is_left = is_left or (waits_for_answer and has_left(connection))
        return is_left or connection.is_closed

    if not is_over():
        await run_in_thread(broker, call, partial(work, is_over))
    if is_left:
        connection.abort()
    return not (is_left or connection.is_closed)
