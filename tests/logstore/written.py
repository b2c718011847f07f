"""A log in memory whose brokers come and go, a reader of it, and what was written: for tests."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from logstore.epoch.leader import Appended, Leader
from logstore.epoch.log import Log, LogSettings
from logstore.epoch.table_queries import VerifiedEnds
from logstore.epoch.writer import ChainLimits
from logstore.errors import LogstoreError
from logstore.formats.leadership_payload import INLINE_BYTES_MAX
from logstore.formats.segment_ranges import SegmentRange
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.objects.memory import MemoryObjects, MemoryStore
from logstore.objects.metered import StoreCounts
from logstore.ports.registry import Row
from logstore.protocol.chain.flush import FlushSettings
from logstore.protocol.chain.identity import Identity, ensure_identity
from logstore.protocol.leading.start import BrokerInfo
from logstore.reading.direct.reader import LogReader
from logstore.reading.direct.segment_fetch import read_batches
from logstore.records.batch import check_batch
from logstore.records.decode import decode_records
from logstore.records.encode import encode_batch
from logstore.records.record import Record
from logstore.registry.memory import MemoryRows
from logstore.registry.retrying import RetryingRegistry
from logstore.runners.step_runner import BlockingStepRunner, StepRunner
from logstore.stores.location import DirectoryLocation
from logstore.testing.virtual_loop import VirtualClock
from logstore.wiring.open import OpenLog, ReadableLog

T = TypeVar("T")

PAYLOAD_BYTES_MAX = 1 << 20


class _Killed(Exception):
    """Ends a broker where it stands."""


VERSION = "0.2.0"
"""Of its brokers: recorded transcripts do not change with each release."""


class WrittenLog:
    """`records` are all that was acknowledged: (offset, timestamp, value) by partition."""

    def __init__(
        self,
        *,
        checkpoint_segments: int = 4,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        seed: int = 0,
    ) -> None:
        self.objects = MemoryObjects(VirtualClock())
        self.rows = MemoryRows()
        self.records: dict[TopicPartition, list[tuple[int, int, bytes]]] = {}
        self.reads = CountedReads(self.rows)
        self.values = 0
        self.tables: Any = None
        """What opens its topics' tables, if it may have any."""
        rng = random.Random(seed)
        clock = VirtualClock()
        self.runner = StepRunner(
            MemoryStore(self.objects),
            RetryingRegistry(self.rows, lambda: f"{rng.getrandbits(64)}", clock, rng),
            clock,
            rng,
            lambda: rng.randbytes(16),
        )
        self._settings = LogSettings(
            flush=FlushSettings(interval_s=0.01),
            limits=ChainLimits(
                checkpoint_segments=checkpoint_segments, inline_bytes_max=inline_bytes_max
            ),
        )

    @asynccontextmanager
    async def life(
        self, *, clean: bool = True, broker: int = 1, runner: StepRunner | None = None
    ) -> AsyncIterator[Log]:
        """One life of a broker, which ends by a clean stop or by dropping dead."""
        identity = await self._identity()
        opened = OpenLog(
            DirectoryLocation(Path("/memory")),
            runner or self.runner,
            identity,
            StoreCounts(),
            tables=self.tables,
        )
        lock = f"the lock of {broker}"
        me = BrokerInfo(broker, "localhost", 9091 + broker, "", lock, version=VERSION)
        try:
            async with asyncio.TaskGroup() as tasks:
                log = await Log.start(opened, me, self._settings, tasks)
                yield log
                if clean:
                    assert await log.close(timeout_s=10)
                raise _Killed
        except* _Killed:
            pass

    async def write(
        self, log: Log, leader: Leader, timestamps: Sequence[int], **batch: Any
    ) -> Appended:
        """Append one batch, a record for each timestamp, and wait until it is committed."""
        records = self._records(timestamps)
        appended = self._append(leader, records, **batch)
        await committed(log, appended.seq)
        key = TopicPartition(leader.topic_id, leader.partition)
        self.records.setdefault(key, []).extend(
            (appended.base_offset + r.offset_delta, r.timestamp, bytes(r.value or b""))
            for r in records
        )
        return appended

    def append(self, leader: Leader, timestamps: Sequence[int], **batch: Any) -> Appended:
        """Append one batch without waiting for it; it may never be committed."""
        return self._append(leader, self._records(timestamps), **batch)

    def _records(self, timestamps: Sequence[int]) -> list[Record]:
        records = []
        for number, timestamp in enumerate(timestamps):
            self.values += 1
            records.append(Record(number, timestamp, None, b"value %d" % self.values))
        return records

    def _append(self, leader: Leader, records: Sequence[Record], **batch: Any) -> Appended:
        data = memoryview(encode_batch(records, **batch))
        return leader.append(data, check_batch(data, 0, len(data)))

    async def reader(self) -> LogReader:
        runner = BlockingStepRunner(self.objects, self.reads, random.Random(0))
        identity = await self._identity()
        rows: Any = None  # a reader of memory has no file to close
        return LogReader(
            ReadableLog(DirectoryLocation(Path("/memory")), runner, identity, StoreCounts(), rows)
        )

    async def _identity(self) -> Identity:
        return await self.runner.run(ensure_identity("memory"))


async def committed(log: Log, seq: int) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: LogstoreError | None) -> None:
        future.set_exception(error) if error else future.set_result(None)

    log.when_committed(seq, done)
    await future


def read_segment_ranges(
    written: WrittenLog, segment_ranges: Sequence[SegmentRange]
) -> list[tuple[int, int, bytes]]:
    """(offset, timestamp, value) of everything in `segment_ranges`, in the order it is read."""
    found = []
    for segments in segment_ranges:
        batches = read_batches(
            written.objects, segments.chain, segments.first_seq, segments.last_seq, [segments]
        )
        for batch in batches:
            assert segments.first_seq <= batch.seq <= segments.last_seq
            base = batch.base_offset
            for record in decode_records(batch.data, max_bytes=PAYLOAD_BYTES_MAX):
                offset = base + record.offset_delta
                if segments.offsets.start <= offset < segments.offsets.end:
                    found.append((offset, record.timestamp, bytes(record.value or b"")))
    return found


class CountedReads:
    """Rows in memory for a blocking reader: their coroutines never wait."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows
        self.query_count = 0

    def get(self, pk: str, sk: str) -> Row | None:
        return _result_of(self._rows.get(pk, sk))

    def query(self, pk: str, prefix: str = "") -> Sequence[tuple[str, Row]]:
        self.query_count += 1
        return _result_of(self._rows.query(pk, prefix))


def _result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a row in memory was waited for")


class NoTables:
    """For logs that have no tables."""

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        raise AssertionError("there is no table to look at")

    async def held(self, marks: Mapping[bytes, int], grace_ms: int, now_ms: int) -> VerifiedEnds:
        raise AssertionError("there is no table to look at")
