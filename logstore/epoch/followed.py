"""One partition that another broker leads, as far as its chain has been followed here.

It is read like a `Leader`: offsets, index rows in memory, a watch. What it shows never goes back,
also not when the partition's row names another leader: an epoch range begins where the one before
ended, and nothing beyond that was ever committed.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from logstore.errors import LogstoreError
from logstore.formats.chain_state import EpochKey, EpochRange
from logstore.formats.index_rows import (
    Rows,
    find_offset,
    find_time,
    max_timestamp_below,
    row_at,
)
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.partition_state import PartitionState
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.partitions.active_producers import ActiveProducer, active_producers
from logstore.slices import Slices


class FollowedChain(Protocol):
    """The chain that a partition's leader writes, as its follower sees it."""

    @property
    def error(self) -> LogstoreError | None: ...

    @property
    def is_entered(self) -> bool: ...

    def epoch_range(self, key: EpochKey) -> EpochRange | None: ...


class Followed:
    """Offsets, all half open: log start <= last stable <= high watermark."""

    def __init__(
        self, topic_id: bytes, partition: int, row: PartitionRow, chain: FollowedChain
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.topic_partition = TopicPartition(topic_id, partition)
        self.row = row
        self.log_start = row.log_start
        self.edited_end = row.edited_end
        self.high_watermark = row.epoch_ranges[-1].start
        self.is_retired = False
        self._chain = chain
        self._watchers: dict[Callable[[], None], None] = {}
        self.advance()

    # What its `Followers` tells

    def follow_row(self, row: PartitionRow, chain: FollowedChain) -> None:
        """The partition's row was changed; `chain` is that of its leader."""
        has_new_leader = row.leader_epoch != self.row.leader_epoch
        self.row, self._chain = row, chain
        self.raise_log_start(row.log_start)
        self.edited_end = max(self.edited_end, row.edited_end)
        self.high_watermark = max(self.high_watermark, row.epoch_ranges[-1].start)
        self.advance()
        if has_new_leader:
            self._wake()

    def raise_log_start(self, offset: int) -> None:
        if offset > self.log_start:
            self.log_start = offset
            self._wake()

    def advance(self) -> None:
        """More of the chain may be known."""
        epoch_range = self._epoch_range()
        if epoch_range is not None and epoch_range.end > self.high_watermark:
            self.high_watermark = epoch_range.end
            self._wake()

    def chain_failed(self) -> None:
        """Its chain cannot be followed for now: waiters look again, and ask its leader."""
        self._wake()

    def retire(self) -> None:
        """It is no longer followed: waiters look the partition up again."""
        self.is_retired = True
        self._wake()

    # What it shows

    @property
    def key(self) -> EpochKey:
        return EpochKey(self.topic_id, self.partition, self.row.leader_epoch)

    @property
    def leader_epoch(self) -> int:
        return self.row.leader_epoch

    @property
    def epoch_ranges(self) -> Sequence[EpochEntry]:
        return self.row.epoch_ranges

    @property
    def log_end(self) -> int:
        """Uncommitted batches are not known here."""
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, else the high watermark."""
        epoch_range = self._epoch_range()
        opened = epoch_range.state.open_transactions if epoch_range is not None else None
        return min(self.high_watermark, *opened.values()) if opened else self.high_watermark

    @property
    def error(self) -> LogstoreError | None:
        """Why the chain cannot be followed, for now."""
        return self._chain.error

    @property
    def is_ready(self) -> bool:
        """Whether it knows where the partition ends, so that it can be read here."""
        return self._chain.is_entered and self._chain.error is None

    def active_producers(self) -> Slices[list[ActiveProducer]]:
        """As far as the chain has been followed; none before it is."""
        epoch_range = self._epoch_range()
        return active_producers(PartitionState() if epoch_range is None else epoch_range.state)

    # Reading

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` whenever more is committed, or log start is raised, or others are to be
        asked from now on; the answer ends that."""
        self._watchers[watcher] = None
        return lambda: self._watchers.pop(watcher, None)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self._watchers.pop(watcher, None)

    @property
    def first_offset_in_memory(self) -> int:
        """The index of offsets from here on is in memory; older ones are in checkpoints."""
        rows = self._rows()
        return row_at(rows, 0).base_offset if rows else self.high_watermark

    def rows_for_offset(self, offset: int) -> tuple[Rows, int]:
        """Rows in memory and the number of the one that holds `offset`, which must be there."""
        located = find_offset([self._rows()], offset)
        assert located is not None, f"offset is not in memory: offset={offset}"
        return located

    def rows_for_time(self, timestamp: int, from_offset: int = 0) -> tuple[Rows, int] | None:
        """Rows in memory and the number of the first with a record at or after `timestamp`.

        Batches wholly below log start, or below `from_offset`, are passed over.
        """
        return find_time([self._rows()], timestamp, max(self.log_start, from_offset))

    def max_timestamp_below(self, offset: int) -> tuple[int, int]:
        """Largest timestamp in memory below `offset`, and an offset in its batch, or (-1, -1)."""
        return max_timestamp_below([self._rows()], offset)

    def _rows(self) -> bytearray:
        epoch_range = self._epoch_range()
        return bytearray() if epoch_range is None else epoch_range.rows

    def _epoch_range(self) -> EpochRange | None:
        return self._chain.epoch_range(self.key)

    def _wake(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()
