"""A log whose older records are moved to a table and whose segments are then trimmed: for tests.

All of it lies in memory, so that a test can count what is read and take a file away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from logstore.epoch.log import Log
from logstore.formats.cluster_row import CLUSTER
from logstore.formats.table_row import TABLE, TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.delta import Tables
from logstore.history.forms.columns import TABLE_COLUMNS
from logstore.history.forms.names import TABLES, table_key
from logstore.history.forms.snapshot import DataFile, Snapshot, TableCommit
from logstore.history.write import TableWriter
from logstore.protocol.deletion.trimming import Trimmer, every
from logstore.reading.brokers.history import HistorySettings
from logstore.reading.brokers.readable import Readable
from logstore.records.arrow import decode_to_arrow
from logstore.records.batch import split_batches
from logstore.testing.virtual_loop import VirtualClock
from tests.logstore.written import WrittenLog

if TYPE_CHECKING:
    import pyarrow as pa

ROOMY = HistorySettings(threads=2, span_bytes=1500, first_span_bytes=500)
"""Room for all, in several runs."""
ROW_GROUP_BYTES = 400


class MovableClock(VirtualClock):
    def __init__(self) -> None:
        super().__init__()
        self._ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._ahead_s

    def forward(self, seconds: float) -> None:
        self._ahead_s += seconds


class MovedLog(WrittenLog):
    """Its brokers keep one segment in memory, so that what was deleted is not served from there."""

    def __init__(self, *, checkpoint_segments: int = 3, history: HistorySettings = ROOMY) -> None:
        super().__init__(checkpoint_segments=checkpoint_segments)
        self._settings = replace(self._settings, cache_bytes_max=1, history=history)
        self.made = Tables("/memory", store=self.objects)
        self.tables = lambda store: Tables("/memory", store=store)
        self.clock = MovableClock()
        self.runner = replace(self.runner, clock=self.clock)
        self.reads_of_tables = 0
        self._run_count = 0
        self._moved: dict[TopicPartition, bytes] = {}
        get_range = self.objects.get_range

        def counted(key: str, start: int, length: int) -> bytes:
            self.reads_of_tables += key.startswith(f"{TABLES}/")
            return get_range(key, start, length)

        self.objects.get_range = counted  # type: ignore[method-assign]

    def keys(self, prefix: str) -> list[str]:
        return [info.key for info in self.objects.list(prefix)]

    async def move(
        self, log: Log, partition: Readable, start: int, end: int, *, file_bytes_max: int = 1 << 20
    ) -> list[DataFile]:
        """Put offsets [start, end) into the table, as one version."""
        key = TopicPartition(partition.topic_id, partition.partition)
        data = b"".join([batch async for batch in batches_of_log(log, partition, start, end)])
        self._moved[key] = self._moved.get(key, b"") + data
        rows = decoded(data, start, end)
        files = self.write_files(key, rows, file_bytes_max=file_bytes_max)
        number = partition.partition
        before = self.made.create(partition.topic_id, "a topic")
        self.made.commit(before, TableCommit({number: start}, {number: end}, files, run="by-hand"))
        return files

    async def merge(
        self,
        partition: Readable,
        *,
        without: range = range(0),
        keep_old_files: bool = False,
        clean_end: int | None = None,
    ) -> None:
        """One file instead of all, lacking some offsets; the old ones are vacuumed.

        With a `clean_end`, key compaction did it.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        key = TopicPartition(partition.topic_id, partition.partition)
        before = self.newest(key.topic_id)
        old = list(before.files[key.partition])
        gone = pa.array(without, pa.int64())
        rows = [
            some.filter(pc.invert(pc.is_in(some.column("offset"), gone)))
            for some in decoded(self._moved[key], 0, before.ends[key.partition])
        ]
        new = self.write_files(key, [some for some in rows if some.num_rows])
        cleaned = {} if clean_end is None else {key.partition: clean_end}
        self.made.commit(before, TableCommit({}, {}, new, old, run="by-hand", cleaned=cleaned))
        if not keep_old_files:
            for file in old:
                self.delete_file(key.topic_id, file)

    def write_files(
        self, key: TopicPartition, rows: Iterable[pa.RecordBatch], *, file_bytes_max: int = 1 << 20
    ) -> list[DataFile]:
        """Small row groups, so that a few records make several."""
        self._run_count += 1
        writer = TableWriter(
            self.objects,
            key.topic_id,
            key.partition,
            f"run{self._run_count}",
            0,
            file_bytes_max=file_bytes_max,
            row_group_bytes=ROW_GROUP_BYTES,
        )
        for some in rows:
            writer.write(some)
        return writer.close()

    async def trim(self, held: dict[TopicPartition, int]) -> None:
        """Publish trim points as far as `held` allows, and delete, without a grace."""
        row = await self.runner.registry.get(CLUSTER, CLUSTER)
        assert row is not None
        trimmer = Trimmer(bytes.fromhex(str(row["cluster_id"])), grace_ms=0)
        for _ in range(2):
            await self.runner.run(trimmer.steps(every, held))

    async def tell_version(self, topic_id: bytes) -> None:
        """Write the table pointer."""
        snapshot = self.newest(topic_id)
        row = TableRow(version=snapshot.version, ends=snapshot.ends).row()
        await self.runner.registry.put_if(TABLE, topic_id.hex(), row)

    def newest(self, topic_id: bytes) -> Snapshot:
        snapshot = self.made.snapshot(topic_id)
        assert snapshot is not None
        return snapshot

    def delete_file(self, topic_id: bytes, file: DataFile) -> None:
        self.objects.delete(f"{table_key(topic_id)}/{file.path}")

    def damage_file(self, topic_id: bytes, file: DataFile) -> None:
        key = f"{table_key(topic_id)}/{file.path}"
        size_bytes = len(self.objects.get(key))
        self.objects.delete(key)
        self.objects.create(key, [b"x" * size_bytes])


async def batches_of_log(
    log: Log, partition: Readable, start: int, end: int
) -> AsyncIterator[bytes]:
    """Stored bytes of offsets [start, end) and what is in the same batches."""
    while start < end:
        chunk = log.read_in_memory(partition, start, end, 1 << 20)
        chunk = chunk or await log.read(partition, start, end, 1 << 20)
        for buffer in chunk.buffers:
            yield bytes(buffer)
        start = chunk.end_offset


def split(data: bytes) -> Iterator[memoryview]:
    for at, header in split_batches(data):
        yield memoryview(data)[at : at + header.size_bytes]


def decoded(data: bytes, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Rows of the batches in `data` with offsets [start, end)."""
    return decode_to_arrow(
        split(data),
        start=start,
        end=end,
        columns=TABLE_COLUMNS,
        rows_max=10_000,
        bytes_max=8 << 20,
        payload_bytes_max=8 << 20,
    )
