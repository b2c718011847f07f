"""One partition that this broker leads: gives offsets, keeps its index, knows what is committed.

`append` is the hot path of produce: decide, copy the batch into the open segment, stamp it, note it
in the index. `adopt` does so with batches that a Spark sink staged. Nothing waits here;
`ChainWriter.when_committed` tells when the batch is safe.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logstore.epoch.writer import ChainWriter
from logstore.errors import Fenced, Invalid, Retryable
from logstore.formats.chain_state import EpochKey, EpochRange
from logstore.formats.index_rows import (
    ROW,
    Rows,
    find_offset,
    find_time,
    max_timestamp_below,
    row_at,
)
from logstore.formats.levels import A_SINK, SINK_LEVEL
from logstore.formats.partition_row import EpochEntry, PartitionRow
from logstore.formats.partition_state import PartitionState, ProducedBatch, Sink
from logstore.formats.segment import AdoptEnd
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.partitions.active_producers import ActiveProducer, active_producers
from logstore.protocol.partitions.producers import Refusal, is_ahead, judge
from logstore.protocol.rows.row_order import newest_row
from logstore.protocol.sinks.verdicts import CopyFrom, SinkRefusal, judge_sink
from logstore.records.batch import (
    LOG_APPEND_TIME_BIT,
    SEQUENCE_MAX,
    BatchHeader,
    stamp,
    stamp_log_append_time,
)
from logstore.slices import Slices

__all__ = [
    "AlreadyAdopted",
    "Appended",
    "CopyFrom",
    "Leader",
    "NotLeading",
    "ProducerRefused",
    "Refusal",
    "SinkRefusal",
]

FLAGS_SHIFT = 3
"""Index flags are bits 3 to 5 of a batch's attributes."""


EARLY_S = 30.0
"""For so long batches may come in the wrong order because of a change of leaders: longer than a
client waits between two attempts, shorter than it tries (two minutes)."""

REPEATED_S = 1.0
"""A batch that its producer still sends after that, and none before it, has none before it: a
client sends what was refused again in order."""

PUT_OFF_MAX = 100
"""Batches that are remembered; others wait for `EARLY_S`."""


class Appended(NamedTuple):
    """Offset of an appended batch; it is durable once segment `seq` is committed."""

    base_offset: int
    timestamp: int
    """-1 unless the topic stamps append time."""
    seq: int


class AlreadyAdopted(NamedTuple):
    """A batch of a sink that is here; it is durable once segment `seq` is committed, -1: it is.

    Its offsets are [first, end); -1 where the sink has a later batch here, which hides them.
    """

    first_offset: int
    end_offset: int
    seq: int


class ProducerRefused(Invalid):
    """An idempotent producer's batch breaks its sequence."""

    def __init__(self, refusal: Refusal, detail: str) -> None:
        super().__init__(f"{refusal.value}: {detail}")
        self.refusal = refusal


class NotLeading(Retryable):
    """The partition was released: another broker leads it, or is about to. Or a leadership has just
    begun, and the batch overtook a predecessor that was refused before: it is refused too, so that
    the client sends both again in order.
    """


@dataclass(slots=True)
class _Window:
    """Rows that went into a checkpoint which is not durable yet."""

    checkpoint: int
    rows: bytearray


class Leader:
    """Offsets, all half open: log start <= last stable <= high watermark <= log end."""

    def __init__(
        self, writer: ChainWriter, topic_id: bytes, partition: int, row: PartitionRow
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.topic_partition = TopicPartition(topic_id, partition)
        self.leader_epoch = row.leader_epoch
        self.row = row
        self.log_start = row.log_start
        self.edited_end = row.edited_end
        self.epoch_ranges: Sequence[EpochEntry] = row.epoch_ranges
        self.high_watermark = row.epoch_ranges[-1].start
        self.has_begun = False
        """Whether the leadership-begin entry is committed.

        Before that nothing of the epoch range exists.
        """
        self.is_retired = False
        self._writer = writer
        self._begun_s = writer.now_s
        self._windows: deque[_Window] = deque()
        self._watchers: dict[Callable[[], None], None] = {}
        self._epoch_range: EpochRange | None = None
        self._put_off: dict[tuple[int, int, int], float] = {}
        """When a batch was refused first, by producer, epoch and sequence."""

    def begin(self, state: PartitionState) -> None:
        """Begin the epoch range in the writer's chain, with the recovered state."""
        self._epoch_range = self._writer.begin_range(self.key, self, self.high_watermark, state)

    def follow_row(self, row: PartitionRow) -> None:
        """The row of this leadership was changed, or was read before a change of our own."""
        self.row = row = newest_row(row, self.row, is_written=False)
        self.epoch_ranges = row.epoch_ranges
        self.raise_log_start(row.log_start)
        self.edited_end = max(self.edited_end, row.edited_end)

    def raise_log_start(self, offset: int) -> None:
        if offset > self.log_start:
            self.log_start = offset
            self._wake()

    def release(self) -> int:
        """End the epoch range by a leadership-end entry; the seq to wait for before another leads.

        Nothing can be appended any more. Raises `Fenced`.
        """
        self._writer.end_range(self.key)
        return self._writer.open_seq

    @property
    def is_released(self) -> bool:
        return self._epoch_range is not None and self._epoch_range.released

    def retire(self) -> None:
        """The partition is gone, or led elsewhere: waiters look it up again."""
        self.is_retired = True
        self._wake()

    @property
    def key(self) -> EpochKey:
        return EpochKey(self.topic_id, self.partition, self.leader_epoch)

    @property
    def epoch_range(self) -> EpochRange:
        assert self._epoch_range is not None, "the epoch range has not begun yet"
        return self._epoch_range

    @property
    def log_end(self) -> int:
        """The next offset to be assigned, whether or not those below are committed."""
        return self.epoch_range.end

    @property
    def last_stable_offset(self) -> int:
        """First offset of the oldest open transaction, else the high watermark."""
        opened = self.epoch_range.state.open_transactions
        return min(self.high_watermark, *opened.values()) if opened else self.high_watermark

    def active_producers(self) -> Slices[list[ActiveProducer]]:
        return active_producers(self.epoch_range.state)

    # Appending

    def append(
        self, batch: memoryview, header: BatchHeader, append_time_ms: int | None = None
    ) -> Appended:
        """Append one checked batch; `append_time_ms` only on topics that stamp append time.

        Raises `ProducerRefused`, or `Fenced` when the chain is. A repeat gets what the first got.
        """
        epoch_range, writer, leader_epoch = self.epoch_range, self._writer, self.leader_epoch
        (  # one assignment, since this runs for every batch
            _, _, _, _, _, attributes, delta, _, max_timestamp, producer, epoch, sequence, count
        ) = header  # fmt: skip
        length = len(batch)
        if producer >= 0 and sequence >= 0:
            state, created_ms = epoch_range.state, writer.created_ms_for(length)
            known = judge(state, producer, epoch, sequence, count, created_ms)
            if known is not None:
                return self._repeated(known, header, created_ms, append_time_ms is not None)
            if sequence and state.live_producer(producer, created_ms) is None:
                self._check_first(header, created_ms)
        if epoch_range.released:
            raise NotLeading(f"released: leader_epoch={leader_epoch}")
        builder = writer.open_segment(length)
        position = builder.body_bytes
        copy = builder.add_bytes(batch)
        base = epoch_range.end
        last = base + delta
        stamp(copy, 0, base, leader_epoch)
        largest_at = base if count == 1 else -1
        if append_time_ms is not None:
            stamp_log_append_time(copy, 0, length, append_time_ms)
            max_timestamp, attributes = append_time_ms, attributes | LOG_APPEND_TIME_BIT
            largest_at = base
        flags = attributes >> FLAGS_SHIFT & 7
        builder.add_batch_entry(
            flags, self.partition, self.topic_id, leader_epoch, length, position, base, last,
            producer, epoch, sequence, max_timestamp, largest_at, count,
        )  # fmt: skip
        seq = writer.open_seq
        epoch_range.end = last + 1
        if max_timestamp > epoch_range.max_timestamp:
            epoch_range.max_timestamp = max_timestamp
            epoch_range.max_timestamp_offset = base
        epoch_range.rows += ROW.pack(
            seq, position, length, count, 0, flags, base, last, max_timestamp, largest_at,
            epoch_range.max_timestamp,
        )  # fmt: skip
        if producer >= 0 and sequence >= 0:
            epoch_range.state.apply_batch(
                producer, epoch, sequence, base, last, max_timestamp, builder.created_ms
            )
        writer.appended(self, last + 1)
        return Appended(base, -1 if append_time_ms is None else append_time_ms, seq)

    def _repeated(
        self, known: ProducedBatch | Refusal, header: BatchHeader, created_ms: int, stamped: bool
    ) -> Appended:
        """A batch that was appended before, or may not be appended at all."""
        if isinstance(known, Refusal):
            if self._writer.fenced.is_set():
                raise Fenced("this broker was fenced: its log state is no longer authoritative")
            if self.epoch_range.released:
                raise NotLeading(f"released: leader_epoch={self.leader_epoch}")
            self._check_not_early(header, created_ms)
            producer = self.epoch_range.state.producer(header.producer_id)
            assert producer is not None, "it is known, or nothing would be refused"
            last = producer.batches[-1].last_sequence if producer.batches else -1
            raise ProducerRefused(
                known,
                f"producer_id={header.producer_id} epoch={header.producer_epoch} "
                f"sequence={header.base_sequence} known_epoch={producer.epoch} "
                f"expected={(last + 1) & SEQUENCE_MAX}",
            )
        base, timestamp = known.base_offset, known.timestamp if stamped else -1
        if base < self.high_watermark:
            return Appended(base, timestamp, -1)
        rows, number = self.rows_for_offset(base)
        return Appended(base, timestamp, row_at(rows, number).seq)

    def _check_first(self, header: BatchHeader, created_ms: int) -> None:
        """Refuse the first batch of a producer for now, unless it is repeated.

        In a partition's first leadership nothing was refused elsewhere. The sequences of a producer
        that lived on from a deleted topic of the same name begin anywhere (KIP-360).
        """
        key = header.producer_id, header.producer_epoch, header.base_sequence
        now_s = self._writer.now_s
        first_s = self._put_off.pop(key, now_s)
        has_waited = self.leader_epoch == 0 and now_s - first_s >= REPEATED_S
        if has_waited and not self._was_put_off_before(key):
            return
        try:
            self._check_not_early(header, created_ms)
        except NotLeading:
            if len(self._put_off) < PUT_OFF_MAX:
                self._put_off[key] = first_s
            raise
        self._put_off.clear()

    def _was_put_off_before(self, key: tuple[int, int, int]) -> bool:
        """Whether a batch that this one must follow was refused, and has not come again."""
        producer_id, epoch, sequence = key
        return any(
            other[:2] == (producer_id, epoch) and other[2] < sequence for other in self._put_off
        )

    def _check_not_early(self, header: BatchHeader, created_ms: int) -> None:
        """Refuse a batch for now if it may have overtaken one that it must follow.

        While a leadership is new, the ones before it may have been refused because it had not begun
        here, or had ended elsewhere. In a partition's first leadership that can only be the first
        of a producer.
        """
        state, producer_id = self.epoch_range.state, header.producer_id
        if (
            self._writer.now_s - self._begun_s < EARLY_S
            and (self.leader_epoch > 0 or state.live_producer(producer_id, created_ms) is None)
            and is_ahead(
                state, producer_id, header.producer_epoch, header.base_sequence, created_ms
            )
        ):
            raise NotLeading(
                f"a batch before this one is missing: producer_id={producer_id} "
                f"sequence={header.base_sequence}; send both again"
            )

    # Copying what a Spark sink staged

    @property
    def chain_ms(self) -> int:
        """The time of the chain now, by which sinks are forgotten."""
        return self._writer.chain_ms()

    def judge_sink(
        self, batch: SinkBatch, batches_total: int | None = None
    ) -> CopyFrom | AlreadyAdopted | SinkRefusal:
        """May this batch of a sink be copied here? As `sinks.verdicts`, which does not wait.

        Raises `NotLeading`, or `Fenced` when the chain is: neither says anything of a sink.
        """
        if self._writer.fenced.is_set():
            raise Fenced("this broker was fenced: its log state is no longer authoritative")
        epoch_range = self.epoch_range
        if epoch_range.released:
            raise NotLeading(f"released: leader_epoch={self.leader_epoch}")
        verdict = judge_sink(
            epoch_range.state, batch.sink, batch.batch, batches_total, self._writer.chain_ms()
        )
        if not isinstance(verdict, Sink):
            return verdict
        seq = -1
        if verdict.end_offset > self.high_watermark:
            rows, number = self.rows_for_offset(verdict.end_offset - 1)
            seq = row_at(rows, number).seq
        if batch.batch < verdict.batch:
            return AlreadyAdopted(-1, -1, seq)
        return AlreadyAdopted(verdict.first_offset, verdict.end_offset, seq)

    def adopt(
        self,
        batch: SinkBatch,
        part: Sequence[tuple[memoryview, BatchHeader]],
        *,
        batches_done: int,
        batches_total: int,
        append_time_ms: int | None = None,
    ) -> Appended:
        """Copy checked batches of a sink, and note in the same segment that they are here.

        `batches_done` is what `judge_sink` has just said. All of `part` is copied at once: a
        segment that is frozen in between would part the records from the memory of them. Raises
        `Fenced`, or `Retryable` where the cluster's format level has no sinks yet.
        """
        writer = self._writer
        too_low = writer.why_not_written(SINK_LEVEL, A_SINK)
        if too_low is not None:
            raise Retryable(too_low)
        builder = writer.open_segment(sum(len(records) for records, _ in part))
        first = last = -1
        for number, (records, header) in enumerate(part):
            last = self.append(records, header, append_time_ms).base_offset
            last += header.last_offset_delta
            first = last - header.last_offset_delta if number == 0 else first
        end = AdoptEnd(
            batch.sink, batch.batch, batches_done + len(part), batches_total, first, last
        )
        builder.add_adopt_end(
            end,
            topic_id=self.topic_id,
            partition=self.partition,
            leader_epoch=self.leader_epoch,
        )
        self.epoch_range.state.apply_adopted(end, builder.created_ms)
        return Appended(first, -1 if append_time_ms is None else append_time_ms, writer.open_seq)

    # What the chain's writer tells

    def commit(self, end: int) -> None:
        self.has_begun = True
        if end > self.high_watermark:
            self.high_watermark = end
            self._wake()

    def checkpoint(self, seq: int, rows: bytearray) -> None:
        self._windows.append(_Window(seq, rows))

    def checkpoint_stored(self, seq: int) -> None:
        while self._windows and self._windows[0].checkpoint <= seq:
            self._windows.popleft()

    # Reading

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` whenever more is committed, or log start is raised, or others are to be
        asked from now on; the answer ends that."""
        self._watchers[watcher] = None
        return lambda: self._watchers.pop(watcher, None)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        self._watchers.pop(watcher, None)

    def _wake(self) -> None:
        for watcher in tuple(self._watchers):
            watcher()

    @property
    def first_offset_in_memory(self) -> int:
        """The index of offsets from here on is in memory; older ones are in checkpoints."""
        for rows in (*(window.rows for window in self._windows), self.epoch_range.rows):
            if rows:
                return row_at(rows, 0).base_offset
        return self.epoch_range.end

    def rows_for_offset(self, offset: int) -> tuple[Rows, int]:
        """Rows in memory and the number of the one that holds `offset`, which must be there."""
        located = find_offset(self._row_runs(), offset)
        assert located is not None, f"offset is not in memory: offset={offset}"
        return located

    def rows_for_time(self, timestamp: int, from_offset: int = 0) -> tuple[Rows, int] | None:
        """Rows in memory and the number of the first with a record at or after `timestamp`.

        Batches wholly below log start, or below `from_offset`, are passed over.
        """
        return find_time(self._row_runs(), timestamp, max(self.log_start, from_offset))

    def max_timestamp_below(self, offset: int) -> tuple[int, int]:
        """Largest timestamp in memory below `offset`, and an offset in its batch, or (-1, -1)."""
        return max_timestamp_below(self._row_runs(), offset)

    def _row_runs(self) -> list[bytearray]:
        runs = [window.rows for window in self._windows]
        return [rows for rows in (*runs, self.epoch_range.rows) if rows]
