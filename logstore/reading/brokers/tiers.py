"""One partition wherever it lies: in segments, and below their trim points in its topic's table.

    log start                       table end
    │◀───────────── table ─────────────▶│
                 │◀──────────── segments ──────────────▶│ high watermark
              begin of segments

Where the two differ below the table end, the table is right
(docs/decisions/0017-the-table-is-the-truth.md). They differ only once the table's owner has changed
rows: the partition's row tells below which offset that has happened (`edited_end`), and no segment
is asked there. All else a broker reads from segments while they are there, as they are nearer.
Where they are gone, or their epoch range is no longer listed, that means: read the rows again, then
the table; never "tail", "end" or "empty" (safety rule 6). A partition's rows are read once for each
place where its segments begin, not for each fetch.

Records may be missing inside the table for good reasons, so a fetch there goes on at the next batch
with a higher offset. Where there is none up to the end, it gets a batch without records, as Kafka's
log cleaner leaves one: its last offset tells a consumer that it has reached the end. What neither
tier reaches is an error that names it.
"""

from collections.abc import Awaitable

from logstore.errors import LogstoreError, NotFound, Retryable
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.deletion.records_deletion import OffsetOutOfRange
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.protocol.rows.metadata import read_partition_row
from logstore.reading.brokers.history import History
from logstore.reading.brokers.read import Chunk, FoundRecord, Reader
from logstore.reading.brokers.readable import Readable
from logstore.reading.planning.table_batches import Compression
from logstore.records.batch import OFFSET_DELTA_MAX
from logstore.records.encode import encode_batch
from logstore.runners.step_runner import StepRunner

BEGINS_KEPT_MAX = 100_000

READS_MAX = 5
"""A row drops epoch ranges at most once a minute."""


class Tiers:
    def __init__(self, runner: StepRunner, segments: Reader, history: History) -> None:
        self._runner = runner
        self._segments = segments
        self._history = history
        self._begins: dict[TopicPartition, int] = {}
        """Per partition, the first offset in segments, as far as looked up. Only goes up."""

    async def read(
        self,
        partition: Readable,
        offset: int,
        up_to: int,
        bytes_max: int,
        compression: Compression = "producer",
        consumer: str | None = None,
    ) -> Chunk:
        """Batches from the one that holds `offset`, or the next, below `up_to`.

        `compression` is for batches that are made from the table; for `consumer`, if it is named,
        segments are read ahead. Raises `OffsetOutOfRange` where
        log start has gone up, `NotFound` where neither tier has what it should, or as the store.
        """
        gone: LogstoreError | None = None
        begin = self._begins.get(partition.topic_partition, 0)
        if offset >= max(begin, partition.edited_end):
            try:
                return await self._segments.read(partition, offset, up_to, bytes_max, consumer)
            except (BelowTrimPoint, NotFound) as error:
                gone = error
            await self._look_again(partition, offset)
        chunk = await self._history.read(partition, offset, up_to, bytes_max, compression)
        if chunk.buffers:
            return chunk
        if chunk.end_offset >= up_to:
            return chunk_without_records(offset, up_to)
        if chunk.end_offset == offset:
            if gone is None:
                await self._look_again(partition, offset)
            raise self._in_neither(partition, offset, gone) from gone
        # No records there up to the table's end: what follows is in segments, or was.
        next_offset = chunk.end_offset
        return await self.read(partition, next_offset, up_to, bytes_max, compression, consumer)

    async def begin_of_segments(self, partition: Readable) -> int:
        """The first offset that is read from segments, or log start; what is below: the table."""
        begin = await self._segments.begin(partition)
        if len(self._begins) >= BEGINS_KEPT_MAX:
            self._begins.clear()
        if begin > 0:
            key = partition.topic_partition
            self._begins[key] = max(begin, self._begins.get(key, 0))
        return max(begin, partition.edited_end, partition.log_start)

    async def table_end(self, partition: Readable) -> int | None:
        """Up to where the topic's table is known to hold the partition; None: it has none."""
        return await self._history.table_end(partition)

    async def record_at_time(
        self, partition: Readable, timestamp: int, up_to: int
    ) -> FoundRecord | None:
        """The first record at or after `timestamp` (ms) from log start on and below `up_to`.

        Raises `Retryable` while segments keep moving to the table.
        """
        for _ in range(READS_MAX):
            begin = await self.begin_of_segments(partition)
            record = await self._record_at_time(partition, timestamp, up_to, begin)
            if _is_listed_from(partition, begin):
                return record
        raise self._keeps_moving(partition)

    async def _record_at_time(
        self, partition: Readable, timestamp: int, up_to: int, begin: int
    ) -> FoundRecord | None:
        log_start = partition.log_start
        old_end = min(begin, up_to)
        if log_start < old_end:
            ask = self._history.first_at_or_after
            record = await self._if_not_deleted(
                partition, old_end, ask(partition, timestamp, log_start, old_end)
            )
            if record is not None:
                return record
        return await self._segments.record_at_time(partition, timestamp, up_to, begin)

    async def record_with_max_timestamp(
        self, partition: Readable, up_to: int
    ) -> FoundRecord | None:
        """The record with the largest timestamp, the first of several, below `up_to`.

        Raises `Retryable` while segments keep moving to the table.
        """
        for _ in range(READS_MAX):
            begin = await self.begin_of_segments(partition)
            record = await self._record_with_max_timestamp(partition, up_to, begin)
            if _is_listed_from(partition, begin):
                return record
        raise self._keeps_moving(partition)

    async def _record_with_max_timestamp(
        self, partition: Readable, up_to: int, begin: int
    ) -> FoundRecord | None:
        log_start = partition.log_start
        old_end = min(begin, up_to)
        if log_start >= old_end:
            return await self._segments.record_with_max_timestamp(partition, up_to, log_start)
        old = await self._if_not_deleted(
            partition, old_end, self._history.latest(partition, log_start, old_end)
        )
        above = -1 if old is None else old.timestamp
        new = await self._segments.record_with_max_timestamp(partition, up_to, begin, above)
        return new or old

    async def _if_not_deleted(
        self, partition: Readable, end: int, asked: Awaitable[FoundRecord | None]
    ) -> FoundRecord | None:
        """The table's record below `end`; None if log start has been raised to there since.

        Segments are given up as soon as the row says so, a moment before its leader knows.
        """
        try:
            return await asked
        except NotFound:
            row = await self._runner.run(
                read_partition_row(partition.topic_id, partition.partition)
            )
            if row is None or row.log_start < end:
                raise
            return None

    async def _look_again(self, partition: Readable, offset: int) -> None:
        """Read the rows: where the log starts, and where segments begin."""
        key = partition.topic_partition
        row = await self._runner.run(read_partition_row(*key))
        if row is None:
            raise Retryable(f"the partition is gone: {partition.topic_partition}")
        # The hint of the change may be lost: consumers that start over need this log start.
        partition.raise_log_start(row.log_start)
        if offset < row.log_start:
            raise OffsetOutOfRange(f"below log start: {partition.topic_partition} offset={offset}")
        await self.begin_of_segments(partition)

    def _keeps_moving(self, partition: Readable) -> Retryable:
        return Retryable(
            f"segments keep moving to the table during the look-up: {partition.topic_partition}"
        )

    def _in_neither(self, partition: Readable, offset: int, gone: LogstoreError | None) -> NotFound:
        begin = self._begins.get(partition.topic_partition, 0)
        cause = f" cause={gone}" if gone is not None else ""
        return NotFound(
            f"neither segments nor the topic's table hold an offset: {partition.topic_partition} "
            f"offset={offset} segments_begin={begin}{cause}"
        )


def chunk_without_records(start: int, end: int) -> Chunk:
    """One batch that says that offsets [start, end) have no records, as many as it can name."""
    last_delta = min(end - start - 1, OFFSET_DELTA_MAX)
    batch = encode_batch([], base_offset=start, last_offset_delta=last_delta)
    return Chunk([memoryview(batch)], len(batch), start + last_delta + 1)


def _is_listed_from(partition: Readable, begin: int) -> bool:
    """Whether the row still lists the epoch ranges that were looked at from `begin` on.

    It may drop some of them in the midst of a look-up; those offsets were then in neither tier.
    """
    return partition.epoch_ranges[0].start <= max(begin, partition.log_start)
