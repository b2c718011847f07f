"""Runs one open chain: gathers batches, freezes segments, puts them, notifies waiters.

Appending is plain method calls on the event loop, so a leader's offsets are given in the order of
arrival. `run` flushes when `protocol.chain.flush` says so; `protocol.chain.pipeline` decides what
is committed. One callback per waiting request and commit, no task and no future per batch.

The chain's state (`chain`) is as appended, the open segment included; if the chain is fenced it is
worthless and so is this object: `fenced` is set, every waiter gets the error, nothing is put again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from logstore.epoch.appender import Appender, Waiter
from logstore.epoch.checkpoint_writer import CheckpointWriter
from logstore.epoch.full_disk import FullDisk
from logstore.epoch.late_tasks import start_unless_ended
from logstore.errors import Fenced
from logstore.formats.chain_state import ChainState, EpochKey, EpochRange, SegmentSpan
from logstore.formats.index_rows import set_last_positions
from logstore.formats.leadership_payload import (
    CHUNK_BYTES_MAX,
    INLINE_BYTES_MAX,
    StateChunk,
    encode_chunks,
    encode_inline,
)
from logstore.formats.levels import OLDEST_LEVEL, why_not_written
from logstore.formats.partition_state import (
    PRODUCER_EXPIRATION_MS,
    PartitionState,
    encode_state,
)
from logstore.formats.segment import EntryKind
from logstore.formats.segment_builder import Arena, ArenaPool, FrozenSegment, SegmentBuilder
from logstore.formats.topic_partition import TopicPartition
from logstore.histogram import Histogram
from logstore.protocol.chain.flush import FlushReason, FlushSettings, KiB, MiB, flush_delay_s
from logstore.protocol.chain.pipeline import Pipeline, Window
from logstore.protocol.chain.put import KeyTaken, put_once
from logstore.protocol.rules.chain_time import ChainTime
from logstore.records.crc32c import crc32c
from logstore.runners.step_runner import StepRunner

NO_EPOCH_RANGE = EpochKey(bytes(16), -1, -1)

FLUSH_BYTES = (
    *(1.0 * KiB, 4.0 * KiB, 16.0 * KiB, 64.0 * KiB, 256.0 * KiB),
    *(1.0 * MiB, 2.0 * MiB, 4.0 * MiB, 8.0 * MiB, 16.0 * MiB),
)
"""Bounds of the histogram of segments' sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLimits:
    """Sizes that no user sets; simulations make them small, so that rare paths become common."""

    checkpoint_segments: int = 256
    """A takeover reads at most about this many segments; each checkpoint is one more put."""

    checkpoint_entries: int = 100_000
    """Bounds the index that a leader keeps in memory, about 7 MB."""

    inline_bytes_max: int = INLINE_BYTES_MAX
    chunk_bytes_max: int = CHUNK_BYTES_MAX
    arena_bytes: int = 16 * MiB


class SegmentSink(Protocol):
    """Where frozen segments stay readable without asking the store."""

    def keep(self, epoch: int, seq: int, body: memoryview) -> None: ...


@dataclass(slots=True)
class _SegmentInFlight:
    """Effects of a segment's commit."""

    ends: dict[Appender, int]
    waiters: list[Waiter]
    opened_s: float
    """When its first batch was appended."""
    began_s: float


class ChainWriter:
    def __init__(
        self,
        chain: ChainState,
        *,
        broker: int,
        runner: StepRunner,
        settings: FlushSettings,
        tasks: asyncio.TaskGroup,
        sink: SegmentSink,
        limits: ChainLimits | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    ) -> None:
        self.chain = chain
        self.appenders: dict[EpochKey, Appender] = {}
        self.fenced = asyncio.Event()
        self.format_level = OLDEST_LEVEL
        """The finalized one, as far as it is known here: nothing above it is begun."""
        self.segment_count = 0
        self.stored_bytes = 0
        self.commit_times = Histogram()
        """Seconds from the first append into a segment to its commit."""
        self.flush_bytes: dict[FlushReason, Histogram] = {
            reason: Histogram(FLUSH_BYTES) for reason in FlushReason
        }
        self._broker = broker
        self._runner = runner
        self._settings = self.start_settings = settings
        self._tasks = tasks
        self._sink = sink
        self._pipeline = Pipeline(chain.next_seq, Window.of(settings))
        self._builder: SegmentBuilder | None = None
        self._opened_s = 0.0
        self._limits = limits or ChainLimits()
        self._producer_expiration_ms = producer_expiration_ms
        self._arenas = ArenaPool(self._limits.arena_bytes)
        self._arena = self._arenas.take(0)
        self._ordered_arena: Arena | None = None
        """For bodies that are stored in another order than they came."""
        self._ends: dict[Appender, int] = {}
        self._in_flight: dict[int, _SegmentInFlight] = {}
        self._open_waiters: list[Waiter] = []
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._last_began_s: float | None = None
        self._is_putting_ahead = False
        self._closing = False
        self.full_disk = FullDisk()
        self._time = ChainTime(chain.created_ms, self.now_s)
        self.checkpoints = CheckpointWriter(
            chain,
            self.appenders,
            self.fenced,
            runner=runner,
            tasks=tasks,
            when_committed=self.when_committed,
            on_end=self._changed.set,
        )

    @property
    def open_seq(self) -> int:
        """The seq of the segment that batches appended now go into."""
        return self.chain.next_seq

    @property
    def appended_seq(self) -> int:
        """The seq up to which all lies that was appended so far."""
        return self.chain.next_seq if self._builder is not None else self.chain.next_seq - 1

    @property
    def committed_end(self) -> int:
        return self._pipeline.committed_end

    @property
    def oldest_put_age_s(self) -> float:
        """How long the oldest segment without an answer has been on its way; 0 without any."""
        if not self._in_flight:
            return 0.0
        oldest = next(iter(self._in_flight.values()))
        return self._runner.clock.monotonic_s() - oldest.began_s

    @property
    def now_s(self) -> float:
        """Monotonic time."""
        return self._runner.clock.monotonic_s()

    @property
    def backlog_bytes(self) -> int:
        """Bytes appended and not committed yet."""
        opened = self._builder.body_bytes if self._builder else 0
        return self._pipeline.backlog_bytes + opened

    @property
    def is_full(self) -> bool:
        """Whether producers should be held back until something is committed."""
        return self.backlog_bytes >= self._settings.backlog_bytes_max

    # Appending

    def follow_level(self, finalized: int | None, level_max: int) -> None:
        """The finalized level was read (None: it was not), of a broker that reads `level_max`."""
        if finalized is None:
            return
        self.format_level = max(self.format_level, finalized)
        if self.format_level > level_max:
            self.stop()  # the next start says why, and is refused

    def why_not_written(self, level: int, what: str) -> str | None:
        """Why a form of `level` is not written in this cluster; None: it is."""
        return why_not_written(self.format_level, level, what)

    def created_ms_for(self, length: int) -> int:
        """Chain time of the segment that a batch of `length` bytes goes into: `open_segment`'s."""
        builder = self._builder
        if builder is None:
            return self.chain_ms()
        if length <= builder.room_bytes:
            return builder.created_ms
        return max(self.chain_ms(), builder.created_ms)

    def open_segment(self, length: int) -> SegmentBuilder:
        """The open segment, with room for `length` bytes more."""
        builder = self._builder
        if builder is not None:
            if length <= builder.room_bytes:
                return builder
            self._freeze(FlushReason.SIZE)
        if self.fenced.is_set():
            raise Fenced(f"chain {self.chain.epoch} is fenced")
        most = max(length, self._settings.segment_bytes_max)  # one batch may be larger
        self._arena = self._with_room(self._arena, most)
        self._builder = SegmentBuilder(self._arena, self.chain_ms(), most)
        self._opened_s = self.now_s
        self._wake.set()
        return self._builder

    def _with_room(self, arena: Arena | None, byte_count: int) -> Arena:
        """`arena`, or another if less than `byte_count` is free in it."""
        if arena is not None:
            if arena.free_bytes >= byte_count:
                return arena
            self._arenas.give_back(arena)
        return self._arenas.take(max(byte_count, 2 * self._settings.segment_bytes_max))

    def chain_ms(self) -> int:
        """The time of the chain now: `ChainTime`."""
        return self._time.now_ms(self._runner.clock.now_ms(), self.now_s, self.chain.created_ms)

    def appended(self, appender: Appender, end: int) -> None:
        """The batches of `appender` in the open segment end at offset `end`."""
        self._ends[appender] = end

    def when_committed(self, seq: int, waiter: Waiter) -> None:
        """Call `waiter` once segment `seq` is committed, or with the error when it never will."""
        if seq < self._pipeline.committed_end:
            waiter(None)
        elif self.fenced.is_set():
            waiter(self._fenced_error())
        elif seq == self.chain.next_seq:
            self._open_waiters.append(waiter)
        else:
            self._in_flight[seq].waiters.append(waiter)

    def has_begun(self, key: EpochKey) -> bool:
        """Whether the chain has this epoch range, ended or not, and has not forgotten it."""
        return key in self.chain.epoch_ranges

    def begin_range(
        self, key: EpochKey, appender: Appender, start: int, state: PartitionState
    ) -> EpochRange:
        """Begin an epoch range: its first entry goes into the open segment, before its batches."""
        assert not self.has_begun(key), f"leader epoch has begun already: {key}"
        self._add_state(EntryKind.TAKE, key, start, self._payload(key, start, state))
        state.expiration_ms = self._producer_expiration_ms
        epoch_range = self.chain.epoch_ranges[key] = EpochRange(start, start, state)
        self.appenders[key] = appender
        self._ends[appender] = start
        return epoch_range

    def end_range(self, key: EpochKey) -> None:
        """End an epoch range: its last entry goes into the open segment, after all its batches."""
        epoch_range = self.chain.epoch_ranges[key]
        assert not epoch_range.released
        payload = self._payload(key, epoch_range.end, epoch_range.state)
        self._add_state(EntryKind.RELEASE, key, epoch_range.end, payload)
        epoch_range.released = True

    def forget(self, key: EpochKey) -> None:
        """Leave an epoch range out of all later checkpoints (`epoch.forgetting`)."""
        epoch_range = self.chain.epoch_ranges[key]
        self._add_state(EntryKind.FORGET, key, epoch_range.end, b"")
        epoch_range.released = True  # nothing can be appended to it any more
        del self.chain.epoch_ranges[key]
        self.appenders.pop(key, None)

    def note_deleted(self, partition: TopicPartition, offset: int) -> None:
        """Say below which offset records were deleted, before the epoch ranges there are forgotten.

        0: the topic is deleted, and nothing need be known of this partition.
        """
        self._add_state(EntryKind.DELETED_BELOW, EpochKey(*partition, -1), offset, b"")
        self.chain.note_deleted(partition, offset)

    def drop_checkpoints(self, seq: int) -> None:
        """List no more the checkpoints below `seq`, which are deleted."""
        self._add_state(EntryKind.CUT, NO_EPOCH_RANGE, seq, b"")
        self.chain.drop_checkpoints(seq)

    def _payload(self, key: EpochKey, offset: int, state: PartitionState) -> bytes:
        data = encode_state(state)
        if len(data) <= self._limits.inline_bytes_max:
            return encode_inline(data)
        return self._put_ahead(key, offset, data)

    def _put_ahead(self, key: EpochKey, start: int, state: bytes) -> bytes:
        """Store a large state in segments of its own, before the entry that names it."""
        chunks = []
        chunk_bytes_max = self._limits.chunk_bytes_max
        self._is_putting_ahead = True
        for at in range(0, len(state), chunk_bytes_max):
            chunk = state[at : at + chunk_bytes_max]
            self._add_state(EntryKind.STATE, key, start, chunk)
            segment = self._freeze(FlushReason.STATE)
            chunks.append(StateChunk(segment.seq, segment.last_position, len(chunk), crc32c(chunk)))
        self._is_putting_ahead = False
        return encode_chunks(chunks)

    def _add_state(self, kind: EntryKind, key: EpochKey, offset: int, payload: bytes) -> None:
        self.open_segment(len(payload)).add_state_entry(
            kind,
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=key.leader_epoch,
            offset=offset,
            payload=payload,
        )

    # Flushing

    async def run(self) -> None:
        """Flush until `close`, or until the chain is fenced."""
        clock = self._runner.clock
        while not self._closing and not self.fenced.is_set():
            await self._wake.wait()
            builder = self._builder
            if builder is None:
                self._wake.clear()
                continue
            delay_s = flush_delay_s(
                self._settings,
                now_s=clock.monotonic_s(),
                last_began_s=self._last_began_s,
                has_slot=self._pipeline.has_slot(by_size=False),
            )
            if delay_s is None:
                self._wake.clear()
            elif delay_s > 0:
                await clock.sleep_s(delay_s)
            else:
                self._freeze(FlushReason.TIME)

    def change_pace(self, interval_s: float, backlog_bytes_max: int) -> None:
        """From the next flush on. Sizes of segments stay: arenas are made for them."""
        self._settings = replace(
            self._settings, interval_s=interval_s, backlog_bytes_max=backlog_bytes_max
        )
        self._pipeline.window = Window.of(self._settings)

    def flush(self, reason: FlushReason = FlushReason.WANTED) -> None:
        """Freeze the open segment now, if there is one."""
        if self._builder is not None:
            self._freeze(reason)

    async def close(self, timeout_s: float) -> bool:
        """Flush, checkpoint, and wait for both; whether everything was committed in time."""
        self.flush(FlushReason.CLOSE)
        self._closing = True
        self._wake.set()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                self.full_disk.shortens(limit)
                await self._until(lambda: self._pipeline.is_idle and self.checkpoints.is_idle)
                self.flush(FlushReason.CLOSE)  # batches appended since
                if self.chain.spans and not self.fenced.is_set():
                    self.checkpoints.begin()
                    await self._until(lambda: self.checkpoints.is_idle)
        except TimeoutError:
            return False
        return not self.fenced.is_set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition() and not self.fenced.is_set():
            self._changed.clear()
            await self._changed.wait()

    def _freeze(self, reason: FlushReason) -> FrozenSegment:
        builder, chain = self._builder, self.chain
        assert builder is not None
        self._order(builder)
        segment = builder.freeze(
            cluster_id=chain.cluster_id,
            epoch=chain.epoch,
            seq=chain.next_seq,
            broker=self._broker,
            nonce=self._runner.draw_nonce(),
            previous_nonce=chain.last_nonce,
        )
        self._builder = None
        self._last_began_s = self._runner.clock.monotonic_s()
        self._in_flight[segment.seq] = _SegmentInFlight(
            self._ends, self._open_waiters, self._opened_s, self._last_began_s
        )
        self.flush_bytes[reason].add(segment.size_bytes)
        self._ends, self._open_waiters = {}, []
        chain.spans.append(SegmentSpan(len(segment.front), segment.size_bytes))
        chain.entry_count += segment.entry_count
        chain.created_ms = segment.created_ms
        chain.last_nonce = segment.nonce
        chain.next_seq += 1
        self._sink.keep(chain.epoch, segment.seq, segment.body)
        self._pipeline.freeze(segment)
        if self._is_checkpoint_due():
            self.checkpoints.begin()
        self._start_puts()
        return segment

    def _order(self, builder: SegmentBuilder) -> None:
        """Store the batches of each topic together. Rows in memory follow; nothing has read them,
        since none of these batches is committed.
        """
        order = builder.order()
        if order is None:
            return
        arena = self._ordered_arena = self._with_room(self._ordered_arena, builder.body_bytes)
        builder.move(order, arena)
        for key, positions in order.batch_positions:
            epoch_range = self.chain.epoch_ranges.get(key)
            if epoch_range is not None:  # else it was forgotten since
                set_last_positions(epoch_range.rows, positions)

    def _is_checkpoint_due(self) -> bool:
        """Never between the chunks of a state and the entry that names them.

        So a replay from a checkpoint needs no segment below it, and these may be trimmed.
        """
        chain, limits = self.chain, self._limits
        return not self._is_putting_ahead and (
            len(chain.spans) >= limits.checkpoint_segments
            or chain.entry_count >= limits.checkpoint_entries
        )

    def _start_puts(self) -> None:
        while (segment := self._pipeline.start()) is not None:
            start_unless_ended(self._tasks, self._put(segment))

    async def _put(self, segment: FrozenSegment) -> None:
        put = put_once(self.chain.epoch, segment, self.full_disk.found)
        outcome = await self._runner.run(put)
        self.full_disk.ended()
        if isinstance(outcome, KeyTaken):
            self._pipeline.fence(segment.seq)
        else:
            self.segment_count += 1
            self.stored_bytes += segment.size_bytes
            for committed in self._pipeline.store(segment.seq):
                self._commit(committed)
        if self._pipeline.is_finished and not self.fenced.is_set():
            self.stop()
        self._start_puts()
        self._wake.set()
        self._changed.set()

    def _commit(self, segment: FrozenSegment) -> None:
        waiting = self._in_flight.pop(segment.seq, None)
        if waiting is None:
            return  # stopped from outside while this was in flight: waiters were notified
        self.commit_times.add(self.now_s - waiting.opened_s)
        for appender, end in waiting.ends.items():
            appender.commit(end)
        for waiter in waiting.waiters:
            waiter(None)

    def stop(self) -> None:
        """Fenced: nothing more will be said to be committed, even if it is."""
        self.fenced.set()
        self._wake.set()
        self._changed.set()
        error = self._fenced_error()
        waiters = [w for waiting in self._in_flight.values() for w in waiting.waiters]
        waiters += self._open_waiters
        self._in_flight.clear()
        self._open_waiters = []
        for waiter in waiters:
            waiter(error)

    def _fenced_error(self) -> Fenced:
        fenced_at = self._pipeline.fenced_at  # None: a heartbeat or a fencing check found it out
        facts = f"epoch={self.chain.epoch}" + ("" if fenced_at is None else f" seq={fenced_at}")
        return Fenced(f"this broker was fenced: {facts}; another took over its partitions")
