"""Bytes of partitions: of batches in segments, and of their table's files below the table end.

What was counted is kept, so each request reads what came since the last one: index rows in memory,
pages of checkpoints where the index has gone on to them, and a table's log where its pointer has
moved. Nothing is listed. One request reads `READS_MAX` times from the store and for `READ_S_MAX` at
most: a partition with a longer index is shown with the bytes that were counted so far.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from broker.network.turns import Turns
from logstore.epoch.log import Log
from logstore.epoch.table_queries import TableQueries
from logstore.errors import LogstoreError
from logstore.formats.table_row import TableRow
from logstore.formats.topic_partition import TopicPartition
from logstore.history.forms.snapshot import Snapshot
from logstore.protocol.partitions.partition_size import SizeLedger
from logstore.protocol.rows.metadata import read_table_rows
from logstore.protocol.rules.retention import parts_of_files, parts_of_rows
from logstore.reading.brokers.readable import Readable

READS_MAX = 1000
READ_S_MAX = 15.0
"""Half of the time that clients wait."""

LEDGERS_SPARE = 64


class _TableSize(NamedTuple):
    version: int
    end: int
    ledger: SizeLedger


class PartitionSizes:
    """`tables` reads the tables' logs; None: there are none to be read."""

    def __init__(self, log: Log, turns: Turns, tables: TableQueries | None) -> None:
        self._log = log
        self._turns = turns
        self._tables = tables
        self._segments: dict[TopicPartition, SizeLedger] = {}
        self._table_sizes: dict[TopicPartition, _TableSize] = {}
        self.turn = asyncio.Semaphore(1)
        """One request counts at a time: hold it during `measure`."""

    async def measure(self, wanted: Sequence[Readable]) -> list[int]:
        """The bytes of each. Raises as the registry does; troubles with the store are passed over:
        what was counted before is shown.
        """
        rows = await self._log.runner.run(read_table_rows()) if self._tables else {}
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S_MAX):
                await self._count(wanted, rows)
        self._forget_some(wanted)
        return [self._size(one) async for one in self._turns.share(wanted)]

    async def _count(self, wanted: Sequence[Readable], rows: Mapping[bytes, TableRow]) -> None:
        reader = _Reads(self._tables)
        async for partition in self._turns.share(wanted):
            with suppress(LogstoreError):
                row = rows.get(partition.topic_id)
                if row is not None:
                    await self._count_table(reader, partition, row)
                await self._count_segments(reader, partition)

    async def _count_table(self, reader: "_Reads", partition: Readable, row: TableRow) -> None:
        key = partition.topic_partition
        known = self._table_sizes.get(key)
        is_known = known is not None and known.version >= row.version
        if is_known or row.ends.get(partition.partition, 0) <= partition.log_start:
            return
        snapshot = await reader.snapshot(partition.topic_id)
        end = None if snapshot is None else snapshot.end(partition.partition)
        if snapshot is None or end is None:
            return
        ledger = SizeLedger(partition.log_start)
        files = snapshot.files_for(partition.partition, partition.log_start, end)
        async for part in self._turns.share(parts_of_files(files, end)):
            ledger.add(part)
        self._table_sizes[key] = _TableSize(row.version, end, ledger)

    async def _count_segments(self, reader: "_Reads", partition: Readable) -> None:
        key = partition.topic_partition
        ledger = self._segments.get(key)
        if ledger is None:
            ledger = self._segments[key] = SizeLedger(partition.log_start)
        table = self._table_sizes.get(key)
        ledger.skip_to(max(partition.log_start, 0 if table is None else table.end))
        up_to = partition.high_watermark
        while ledger.at < up_to:
            if ledger.at < partition.first_offset_in_memory and not reader.take():
                return
            begun_at = ledger.at
            found = await self._log.index_rows(partition, begun_at)
            parts = parts_of_rows(found.rows, found.number, up_to)
            async for part in self._turns.share(parts):
                ledger.add(part)
            if ledger.at == begun_at:
                return

    def _size(self, partition: Readable) -> int:
        key = partition.topic_partition
        table, segments = self._table_sizes.get(key), self._segments.get(key)
        start = partition.log_start
        size = 0 if table is None else table.ledger.bytes_from(start)
        if segments is not None:
            size += segments.bytes_from(start if table is None else max(start, table.end))
        return size

    def _forget_some(self, wanted: Sequence[Readable]) -> None:
        """Of partitions that have no replica here any more: after a request about all others."""
        if len(self._segments) <= 2 * len(wanted) + LEDGERS_SPARE:
            return
        keys = {one.topic_partition for one in wanted}
        self._segments = {key: one for key, one in self._segments.items() if key in keys}
        self._table_sizes = {key: one for key, one in self._table_sizes.items() if key in keys}


class _Reads:
    """The reads that one request has left, and the last table that was looked at."""

    def __init__(self, tables: TableQueries | None) -> None:
        self._tables = tables
        self._left = READS_MAX
        self._last: tuple[bytes, Snapshot | None] = (b"", None)

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0

    async def snapshot(self, topic_id: bytes) -> Snapshot | None:
        if self._last[0] != topic_id:
            if self._tables is None or not self.take():
                return None
            self._last = (topic_id, await self._tables.snapshot(topic_id))
        return self._last[1]
