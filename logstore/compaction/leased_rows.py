"""The compactor's lease and its rows: an event loop in a thread that renews while a run works.

The lease says who acts, never who is right: what a run commits is right or refused by itself. A run
that could not renew for half a lease stops at its next step; one that was frozen finds out there.
One whose renewals take too long to act under the lease, three in a row, leaves it to others.
"""

import asyncio
import random
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from logstore.errors import LogstoreError, Refused, Retryable
from logstore.formats.compaction_row import COMPACTOR
from logstore.formats.lease_row import LeaseRow
from logstore.formats.partition_row import NO_BROKER
from logstore.ports.clock import Clock, SystemClock
from logstore.protocol.leading.lease import Lease
from logstore.protocol.steps import Steps
from logstore.wiring.open import OpenLog, open_existing

T = TypeVar("T")

LEASE_S = 10.0
STEPS_PER_LEASE = 3
READS_PER_LEASE = 12
CALL_TIMEOUT_S = 120.0
GIVE_UP_S = 5.0


class Busy(Refused):
    """Another run is at work. `holder` is its lease."""

    def __init__(
        self, holder: LeaseRow, message: str = "another compaction run is in progress"
    ) -> None:
        super().__init__(message)
        self.holder = holder


class LeasedRows:
    """Steps on a log's registry, from any thread, and the lease. `close` ends both."""

    def __init__(
        self,
        url: str,
        storage: Mapping[str, str],
        *,
        owner: int,
        owner_epoch: int,
        lease_s: float = LEASE_S,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._storage = storage
        self._clock = clock or SystemClock()
        self._lease = Lease(COMPACTOR, owner=owner, owner_epoch=owner_epoch, lease_s=lease_s)
        self._log: OpenLog | None = None
        self._stop: asyncio.Event | None = None
        self._renews = False
        self._is_too_slow = False
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._start()
        self._raise_failure()

    @property
    def log(self) -> OpenLog:
        assert self._log is not None
        return self._log

    def perform(self, steps: Steps[T]) -> T:
        """Raises as the steps do; `Retryable` where there is no answer for long."""
        return self._call(self.log.runner.run(steps))

    def acquire(self, wait_s: float) -> None:
        """Become the owner. Raises `Busy` once another owner has shown that it lives.

        An owner that shows nothing for a lease is dead; one that lives is waited for `wait_s`.
        Raises `Retryable` where it is ours, and always too late to act under it.
        """
        self._call(self._acquire(wait_s), timeout_s=wait_s + CALL_TIMEOUT_S)

    @property
    def holds(self) -> bool:
        return self._lease.holds(self._clock.monotonic_s())

    def check(self) -> None:
        """Raises `Retryable` when another run may be at work by now."""
        if self._is_too_slow:
            raise self._too_slow()
        if not self.holds:
            raise Retryable(
                "the lease of compaction was lost, another run may have it; nothing that was "
                "committed is lost, and the next run goes on from there"
            )

    def close(self) -> None:
        """Leaves the lease free and the registry closed; waits a few seconds at most."""
        if self._thread.is_alive():
            assert self._stop is not None
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(GIVE_UP_S * 2)

    def _start(self) -> None:
        """Begin to live on a loop of its own; returns once that is ready, or has failed."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="logstore-lease", daemon=True)
        self._thread.start()
        self._ready.wait()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            future.cancel()
            raise Retryable(f"the registry does not answer: timeout_s={timeout_s}") from error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        self._log = await open_existing(
            self._url, clock=self._clock, rng=random.Random(), storage=self._storage
        )
        try:
            self._ready.set()
            while not self._stop.is_set():
                if self._renews and self._lease.is_mine:
                    await self._step()
                await _wait_for(self._stop, self._lease.lease_s / STEPS_PER_LEASE)
            await self._give_up()
        finally:
            await self._log.close()

    async def _acquire(self, wait_s: float) -> None:
        began_s = self._clock.monotonic_s()
        first: LeaseRow | None = None
        while True:
            await self._try_to_acquire()
            if self.holds:
                self._renews = True
                return
            if self._lease.is_too_slow:
                await self._hand_over()
                raise self._too_slow()
            seen = self._lease.seen
            if seen is not None and seen.owner != NO_BROKER and not self._lease.is_mine:
                first = seen if first is None or first.owner != seen.owner else first
                is_alive = first.heartbeat != seen.heartbeat
                if is_alive and self._clock.monotonic_s() - began_s >= wait_s:
                    raise Busy(seen)
            await self._clock.sleep_s(self._lease.lease_s / READS_PER_LEASE)

    async def _try_to_acquire(self) -> None:
        now_s = self._clock.monotonic_s()
        await self.log.runner.run(self._lease.step(now_s, lambda owner, epoch: False))
        self._lease.note_ended(self._clock.monotonic_s())

    async def _step(self) -> None:
        try:
            async with asyncio.timeout(self._lease.lease_s):
                await self._try_to_acquire()
        except (LogstoreError, TimeoutError):
            return  # `holds` runs out by itself
        if self._lease.is_too_slow:
            await self._hand_over()

    async def _hand_over(self) -> None:
        """Not taken again: the run ends."""
        self._renews, self._is_too_slow = False, True
        await self._give_up()

    def _too_slow(self) -> Retryable:
        return Retryable(
            "renewing the lease of compaction takes too long to act under it, it is left to "
            f"others: lease_s={self._lease.lease_s:g}; see why the registry answers slowly here"
        )

    async def _give_up(self) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                await self.log.runner.run(self._lease.give_up())
        except (LogstoreError, TimeoutError):
            return  # it runs out by itself


async def _wait_for(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
