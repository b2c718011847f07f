"""A coordinator on a partition in memory, in virtual time; commits come when the test says so."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from broker.groups.coordinator import Coordinator
from broker.groups.decisions.limits import GroupLimits
from broker.groups.decisions.outcome import Answer
from broker.groups.log_port import Batches, Waiter
from broker.network.timers import Timers
from logstore.errors import Fenced, Retryable
from logstore.records.batch import read_header
from logstore.testing.virtual_loop import VirtualClock

COMMIT_TIMEOUT_S = 5.0


class MemoryPartition:
    """A `PartitionLog`. A segment per `commit`, a batch per append."""

    def __init__(self) -> None:
        self.partition = 0
        self.start = 0
        self.batches: list[tuple[int, int, bytes]] = []
        """Base offset, end offset, bytes."""
        self.committed_end = 0
        self.is_led = True
        self.commits_at_once = True
        self.fails_to_read = 0
        self.fails_to_raise = False
        self._waiters: list[tuple[int, Waiter]] = []
        self._watchers: list[Callable[[], None]] = []

    @property
    def end(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    @property
    def high_watermark(self) -> int:
        return self.end

    def append(self, batch: bytes) -> int:
        if not self.is_led:
            raise Fenced("another broker took over")
        count = read_header(memoryview(batch), 0, len(batch)).record_count
        self.batches.append((self.end, self.end + count, batch))
        seq = self.committed_end
        if self.commits_at_once:
            self.commit()
        return seq

    def commit(self) -> None:
        self.committed_end += 1
        due = [waiter for seq, waiter in self._waiters if seq < self.committed_end]
        self._waiters = [one for one in self._waiters if one[0] >= self.committed_end]
        for waiter in due:
            waiter(None)

    def lose(self) -> None:
        """Another broker leads from now on."""
        self.is_led = False
        for watcher in list(self._watchers):
            watcher()

    def when_committed(self, seq: int, waiter: Waiter) -> None:
        if seq < self.committed_end:
            waiter(None)
        else:
            self._waiters.append((seq, waiter))

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def read(self, offset: int, bytes_max: int) -> Batches:
        if self.fails_to_read:
            self.fails_to_read -= 1
            raise Retryable("the store is away")
        left = bytes_max
        found, end = [], offset
        for _, batch_end, batch in self.batches:
            if batch_end > offset and left > 0:
                found.append(memoryview(batch))
                end, left = batch_end, left - len(batch)
        return Batches(found, end)

    async def raise_log_start(self, offset: int) -> None:
        if self.fails_to_raise:
            raise Retryable("the registry is away")
        self.start = offset
        self.batches = [one for one in self.batches if one[1] > offset]


class Box:
    """A `Token` that keeps its answer."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def send(self, answer: Answer) -> None:
        self.answers.append(answer)


class Bench:
    """Coordinators on `log`, one after the other."""

    def __init__(self, log: MemoryPartition, tasks: asyncio.TaskGroup, limits: GroupLimits) -> None:
        self.log = log
        self.limits = limits
        self.used_bytes: Callable[[], int] | None = None
        self.started_count = 0
        """What was begun in the background."""
        self._tasks = tasks

    def start(self, work: Coroutine[Any, Any, None]) -> object:
        self.started_count += 1
        return self._tasks.create_task(work)

    def new(self) -> Coordinator:
        return Coordinator(
            self.log,
            self.limits,
            timers=Timers(asyncio.get_running_loop()),
            clock=VirtualClock(),
            start=self.start,
            commit_timeout_s=COMMIT_TIMEOUT_S,
            used_bytes=self.used_bytes,
        )

    async def loaded(self) -> Coordinator:
        coordinator = self.new()
        await coordinator.load()
        assert coordinator.is_loaded
        return coordinator
