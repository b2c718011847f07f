"""History for consumers: batches made from topics' tables, beside the event loop.

    fetch ─▶ spans in memory ─▶ a thread per missing span, however many wait ─▶ table, Parquet

The thread that makes a span reads a few MiB of Parquet and suspends there; for a consumer that
reads on, the next span is made while it is served from one. Threads, libraries and memory are taken
at the first read below the segments: a broker without such reads has none of them.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from logstore.errors import Corrupt, NotFound
from logstore.formats.offset_range import OffsetRange
from logstore.formats.table_row import POINTER_AGAIN_S, TABLE, TableRow
from logstore.objects.from_threads import FromThreads
from logstore.protocol.steps import GetRow, Steps
from logstore.reading.brokers.read import Chunk, FoundRecord
from logstore.reading.brokers.readable import Readable
from logstore.reading.planning.table_batches import (
    Compression,
    Stream,
    TableBatchCache,
    TableBatches,
)
from logstore.runners.step_runner import StepRunner

if TYPE_CHECKING:
    from logstore.ports.objects import BlockingObjectStore
    from logstore.reading.brokers.table import TableReader, TableSnapshots

T = TypeVar("T")

MiB = 1024 * 1024
STORE_TIMEOUT_S = 15.0

BYTES_PER_CURSOR = 16 * MiB
"""One suspended reader of a file for so much cache. Each holds a row group, about 24 MiB; without
one a span begins by reading its row group again."""

AHEAD_SHARE = 4
"""Batches read ahead and not requested yet may take a fourth of the cache."""

ROWS_KEPT_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    cache_bytes_max: int = 64 * MiB
    """Batches made from tables that are kept: a consumer of history needs two spans of 4 MiB for
    each partition that it reads at a time."""
    span_bytes: int = 4 * MiB
    """Bytes decoded at once for a consumer that reads on."""
    first_span_bytes: int = MiB // 2
    """And for a consumer that begins: it waits for its first batch, and may need no more."""
    threads: int = 4
    """Spans that are made at once; on few cores more of them only wait for the store together."""


class BadTable(Corrupt):
    """A topic's table holds what cannot be read. Segments can: consumers of the tail go on."""


@dataclass(slots=True)
class _KnownRow:
    version: int
    again_s: float


class History:
    """`tables` opens what reads tables' logs, once, in a thread; None: there are no tables."""

    def __init__(
        self,
        runner: StepRunner,
        tables: "Callable[[BlockingObjectStore], TableSnapshots] | None",
        settings: HistorySettings,
    ) -> None:
        self._runner = runner
        self._tables = tables
        self._settings = settings
        self._spans = TableBatchCache(settings.cache_bytes_max)
        self._loading: dict[tuple[Stream, int], asyncio.Future[TableBatches]] = {}
        self._ahead: dict[tuple[Stream, int], None] = {}
        """Spans read ahead and not requested yet."""
        self._rows: dict[bytes, _KnownRow] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._opening = threading.Lock()
        self._reader: TableReader | None = None
        self.hit_count = 0
        self.miss_count = 0
        self.served_bytes = 0

    @property
    def cache_bytes(self) -> int:
        return self._spans.byte_count

    @property
    def refresh_count(self) -> int:
        """How many times a table's log was read."""
        return 0 if self._reader is None else self._reader.refresh_count

    # Batches

    async def read(
        self, partition: Readable, offset: int, up_to: int, bytes_max: int, compression: Compression
    ) -> Chunk:
        """Batches of the table from `offset` on, below `up_to`; the first of them comes whole.

        `end_offset` is `offset` where the table does not reach it, and beyond without batches where
        it holds no records in between. Raises as the store does, `Corrupt`, `Refused`.
        """
        if self._tables is None:
            return Chunk((), 0, offset)
        stream = Stream(partition.topic_id, partition.partition, compression)
        version = await self._lowest_version(partition.topic_id)
        buffers: list[memoryview] = []
        total, position = 0, offset
        span: TableBatches | None = await self._span(stream, position, version)
        while span is not None:
            taken = span.take(position, up_to, bytes_max - total, is_first=not buffers)
            buffers += map(memoryview, taken.batches)
            total += taken.byte_count
            position = taken.end_offset
            if position < span.end or position >= up_to or span.is_last:
                break
            # More only if it is in memory; but the first must come, or the consumer would stall.
            if buffers:
                span = self._find(stream, position, version)
            else:
                span = await self._span(stream, position, version)
        self.served_bytes += total
        return Chunk(buffers, total, position)

    async def _span(self, stream: Stream, offset: int, version: int) -> TableBatches:
        span = self._find(stream, offset, version)
        if span is None:
            self.miss_count += 1
            goes_on = self._spans.find(stream, offset - 1, version) is not None
            settings = self._settings
            bytes_max = settings.span_bytes if goes_on else settings.first_span_bytes
            span = await asyncio.shield(self._load(stream, offset, version, bytes_max))
        else:
            self.hit_count += 1
        if self._spans.find(stream, span.start - 1, version) is not None:
            self._read_ahead(stream, span, version)
        return span

    def _find(self, stream: Stream, offset: int, version: int) -> TableBatches | None:
        span = self._spans.find(stream, offset, version)
        if span is not None:
            self._ahead.pop((stream, span.start), None)
        return span

    def _load(
        self, stream: Stream, offset: int, version: int, bytes_max: int
    ) -> "asyncio.Future[TableBatches]":
        """Make a span, once however many want it."""
        key = (stream, offset)
        self._ahead.pop(key, None)
        loading = self._loading.get(key)
        if loading is None:
            loading = self._begin(lambda reader: reader.span(stream, offset, version, bytes_max))
            self._loading[key] = loading
            loading.add_done_callback(lambda done: self._loaded(key, done))
        return loading

    def _loaded(self, key: tuple[Stream, int], done: "asyncio.Future[TableBatches]") -> None:
        del self._loading[key]
        if done.cancelled() or done.exception() is not None:
            self._ahead.pop(key, None)
        elif (span := done.result()).end > span.start:
            self._spans.keep(key[0], span)

    def _read_ahead(self, stream: Stream, span: TableBatches, version: int) -> None:
        """Decode the span after `span`, if there is room for a span that may never be requested."""
        key, span_bytes = (stream, span.end), self._settings.span_bytes
        if span.is_last or key in self._loading or self._spans.find(*key, version):
            return
        room = self._settings.cache_bytes_max // AHEAD_SHARE // span_bytes
        if len(self._ahead) >= max(1, room):
            self._ahead.pop(next(iter(self._ahead)))  # the oldest, which may be gone by now
            return
        self._load(*key, version, span_bytes)
        self._ahead[key] = None

    # Records by time

    async def first_at_or_after(
        self, partition: Readable, timestamp: int, start: int, end: int
    ) -> FoundRecord | None:
        """The first record in [start, end) at or after `timestamp` (ms).

        Raises `NotFound` where the table does not reach `end`.
        """
        from logstore.reading.brokers.table import TableRequest

        version = await self._lowest_version(partition.topic_id)
        wanted = TableRequest(OffsetRange(partition.topic_partition, start, end), version)
        record = await self._begin(lambda reader: reader.first_at_or_after(wanted, timestamp))
        return None if record is None else FoundRecord(*record)

    async def latest(self, partition: Readable, start: int, end: int) -> FoundRecord | None:
        """The record in [start, end) with the largest timestamp. Raises the same."""
        from logstore.reading.brokers.table import TableRequest

        version = await self._lowest_version(partition.topic_id)
        wanted = TableRequest(OffsetRange(partition.topic_partition, start, end), version)
        record = await self._begin(lambda reader: reader.latest(wanted))
        return None if record is None else FoundRecord(*record)

    async def table_end(self, partition: Readable) -> int | None:
        """Table end by the table pointer, which may lag a little behind the table; None: no
        table.
        """
        row = await self._runner.run(_read_table_pointer(partition.topic_id))
        return None if row is None else row.ends.get(partition.partition)

    # Threads

    def close(self) -> None:
        """Begin nothing more; what runs ends by itself."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, work: "Callable[[TableReader], T]") -> "asyncio.Future[T]":
        tables, loop = self._tables, asyncio.get_running_loop()
        if tables is None:
            raise NotFound(
                "the records were trimmed from segments, and this process reads no tables: install "
                "the extra `table`"
            )
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self._settings.threads, thread_name_prefix="logstore-history"
            )
        store = FromThreads(self._runner.store, loop, timeout_s=STORE_TIMEOUT_S)
        future = loop.run_in_executor(self._pool, self._do, work, tables, store)
        future.add_done_callback(_seen)
        return future

    def _do(
        self,
        work: "Callable[[TableReader], T]",
        tables: "Callable[[BlockingObjectStore], TableSnapshots]",
        store: FromThreads,
    ) -> T:
        """In a thread."""
        try:
            return work(self._opened(tables, store))
        except Corrupt as error:
            raise BadTable(f"the topic's table cannot be read: {error}") from error

    def _opened(
        self, tables: "Callable[[BlockingObjectStore], TableSnapshots]", store: FromThreads
    ) -> "TableReader":
        """The one there is; libraries are loaded here, which takes a while."""
        from logstore.reading.brokers.table import TableReader

        with self._opening:
            if self._reader is None:
                cursors = max(2, self._settings.cache_bytes_max // BYTES_PER_CURSOR)
                self._reader = TableReader(tables(store), store, cursors_max=cursors)
            return self._reader

    async def _lowest_version(self, topic_id: bytes) -> int:
        now_s = self._runner.clock.monotonic_s()
        known = self._rows.get(topic_id)
        if known is None or now_s >= known.again_s:
            row = await self._runner.run(_read_table_pointer(topic_id))
            if len(self._rows) >= ROWS_KEPT_MAX:
                self._rows.clear()
            known = _KnownRow(0 if row is None else row.version, now_s + POINTER_AGAIN_S)
            self._rows[topic_id] = known
        return known.version


def _read_table_pointer(topic_id: bytes) -> Steps[TableRow | None]:
    row = yield GetRow(TABLE, topic_id.hex())
    return None if row is None else TableRow.of(row)


def _seen(done: "asyncio.Future[T]") -> None:
    """Retrieve the error: the waiter may have gone, and a span read ahead may have none."""
    if not done.cancelled():
        done.exception()
