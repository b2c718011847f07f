"""The fault proxy before a server, on an event loop in a thread: for tests that block."""

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from logstore.ports.clock import SystemClock
from logstore.testing.fault_plan import FaultPlan, FaultRule
from logstore.testing.fault_proxy import FaultProxy

T = TypeVar("T")

DEADLINE_S = 30


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def close(self) -> None:
        """Once what runs has ended: a connection may have been accepted a moment ago."""
        self.run(_rest())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


async def _rest() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


class Proxied:
    """A running proxy: where it listens, and its faults."""

    def __init__(self, endpoint: str, proxy: FaultProxy, loop: LoopThread) -> None:
        self.endpoint = endpoint
        self._proxy = proxy
        self._loop = loop

    def play(self, *rules: str, seed: int = 1, latency: float = 0.0) -> None:
        """These rules from now on, and no others; counts begin at 0."""
        plan = FaultPlan(seed, tuple(FaultRule.of(rule) for rule in rules), latency)

        async def change() -> None:
            self._proxy.set_plan(plan)

        self._loop.run(change())

    def wait_for(self, counted: str) -> None:
        """Until this has been counted."""

        async def wait() -> None:
            while not self._proxy.counts[counted]:
                await SystemClock().sleep_s(0.01)

        self._loop.run(asyncio.wait_for(wait(), DEADLINE_S))

    def counts(self) -> Counter[str]:
        return Counter(self._proxy.counts)


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxied]:
    """A proxy before the server at `endpoint`, with no faults."""
    behind = urlsplit(endpoint)
    assert behind.hostname is not None
    assert behind.port is not None
    proxy = FaultProxy((behind.hostname, behind.port), FaultPlan(1))
    loop = LoopThread()
    try:
        where = loop.run(proxy.start())
        try:
            yield Proxied(f"http://{where}", proxy, loop)
        finally:
            loop.run(proxy.close())
    finally:
        loop.close()
