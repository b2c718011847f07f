"""A coordinator's interface to the log: one partition that this broker leads.

append → seq        plain call; safe when `when_committed(seq)` says so
read                whole batches from an offset on
raise_log_start     drop the records below, once their keys are appended again
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

from broker.groups.decisions.group_partition import OFFSETS_TOPIC
from logstore.epoch.leader import Leader
from logstore.epoch.log import Log
from logstore.errors import LogstoreError
from logstore.formats.feed_row import FeedChange
from logstore.formats.partition_row import StartReason
from logstore.protocol.deletion.records_deletion import Raise, raise_log_start
from logstore.records.batch import read_header

Waiter = Callable[[LogstoreError | None], None]


class Batches(NamedTuple):
    """Whole batches; read on at `end_offset`."""

    batches: list[memoryview]
    end_offset: int


class PartitionLog(Protocol):
    partition: int

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int:
        """The next offset to be given."""
        ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def is_led(self) -> bool:
        """Whether this broker may append, as far as it knows."""
        ...

    @property
    def committed_end(self) -> int:
        """All seqs below are committed."""
        ...

    def append(self, batch: bytes) -> int:
        """The seq to wait for. Raises `Fenced`, `Retryable` when no longer led."""
        ...

    def when_committed(self, seq: int, waiter: Waiter) -> None: ...

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` when something changed; the answer ends that."""
        ...

    async def read(self, offset: int, bytes_max: int) -> Batches: ...

    async def raise_log_start(self, offset: int) -> None: ...


class LedPartition:
    """A `PartitionLog` on a leader of this broker's log."""

    def __init__(self, log: Log, leader: Leader) -> None:
        self.leader = leader
        self.partition = leader.partition
        self._log = log

    @property
    def start(self) -> int:
        return self.leader.log_start

    @property
    def end(self) -> int:
        return self.leader.log_end

    @property
    def high_watermark(self) -> int:
        return self.leader.high_watermark

    @property
    def is_led(self) -> bool:
        leader = self.leader
        return not (leader.is_retired or leader.is_released or self._log.fenced.is_set())

    @property
    def committed_end(self) -> int:
        return self._log.writer.committed_end

    def append(self, batch: bytes) -> int:
        view = memoryview(batch)
        return self.leader.append(view, read_header(view, 0, len(view))).seq

    def when_committed(self, seq: int, waiter: Waiter) -> None:
        self._log.when_committed(seq, waiter)

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        return self.leader.watch(watcher)

    async def read(self, offset: int, bytes_max: int) -> Batches:
        leader = self.leader
        chunk = await self._log.read(leader, offset, leader.high_watermark, bytes_max)
        batches = [batch for buffer in chunk.buffers for batch in _split(buffer)]
        return Batches(batches, chunk.end_offset)

    async def raise_log_start(self, offset: int) -> None:
        leader, log = self.leader, self._log
        leads = log.epoch, leader.leader_epoch
        reason = StartReason.REWRITTEN
        wanted = Raise(leader.topic_id, leader.partition, *leads, offset, reason)
        raised = await log.runner.run(raise_log_start(wanted))
        if raised is not None:
            # Its row, too: the next leader must start from this log start.
            log_start = max(raised, leader.row.log_start)
            leader.follow_row(replace(leader.row, log_start=log_start))
            await log.publish([FeedChange(OFFSETS_TOPIC, leader.topic_id, leader.partition)])


def _split(buffer: memoryview) -> list[memoryview]:
    batches, at = [], 0
    while at < len(buffer):
        size = read_header(buffer, at, len(buffer) - at).size_bytes
        batches.append(buffer[at : at + size])
        at += size
    return batches
