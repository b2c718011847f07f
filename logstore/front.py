"""The front door: a log read as Arrow, from notebooks or by DuckDB, without Spark or a broker.

    with logstore.open("./data") as log:
        reader = log.read("orders", columns=["offset", "value"])    # a pyarrow.RecordBatchReader

What `import logstore` shows is this and the errors. Objects and registry are read where they lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from logstore.errors import Corrupt, Invalid, NotFound
from logstore.protocol.partitions.lookup import BelowTrimPoint
from logstore.reading.direct.log_metadata import LogMetadata, TopicFilter
from logstore.reading.direct.missing import Resolver
from logstore.reading.direct.task_rows import DEFAULT_COLUMNS, read_rows, rows_schema
from logstore.reading.planning.bounds import Bounds, ranges_of
from logstore.reading.planning.extents import Extents, TopicExtent
from logstore.reading.planning.sequence import in_order
from logstore.reading.planning.tasks import ReadTask, Storage
from logstore.stores.location import parse_location
from logstore.wiring.open import ReadableLog, open_objects, open_readable, open_tables

if TYPE_CHECKING:
    import pyarrow as pa

REMEDY = 'read it again: start="earliest" begins where the log begins now'
"""Advice for a caller of `read` about records that are gone."""


class LogView:
    """An open log; reads change nothing. Close it, or use it in a `with` statement.

    Not for several threads at once. Readers that it made are independent of it.
    """

    def __init__(self, url: str, storage: Mapping[str, str]) -> None:
        self.url = parse_location(url).url
        self._storage = dict(storage)
        self._log: ReadableLog | None = open_readable(self.url, self._storage)

    def topics(self) -> dict[str, TopicExtent]:
        """Every topic by name: its id, and by partition the offsets [start, end) to be read now."""
        return dict(self._metadata(_Every()).look())

    def read(
        self,
        topic: str,
        *,
        start: Bounds = None,
        end: Bounds = None,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Every committed record of `topic` once, from its table and its segments.

        `start` (included; None: "earliest") and `end` (excluded; None: "latest") are "earliest",
        "latest", a `datetime` with a time zone, which means the first record at or after it, or a
        dict that gives one of these or an offset by partition; partitions that it leaves out are
        read from their beginning, or to their end. The end is fixed by this call.

        `columns` are some of key, value, topic, partition, offset, timestamp, timestampType (these
        seven when not given), headers, timestamp_ms, leader_epoch and raw_batch, in your order:
        types as in Spark's Kafka source. Columns that are not asked for cost nothing.

        Rows come in batches of at most 10,000 and 8 MiB (a larger record comes alone), those of a
        partition by offset; about 100 MB of memory are taken beside them. A reader is read once.

        Raises `Invalid` for an unknown topic, column or bound, and when this log is closed;
        `Refused` for offsets that are not there. While rows are read, errors of the store and
        `Corrupt` come out of the reader, and `Refused` if retention deletes wanted records first.
        """
        import pyarrow as pa

        schema = rows_schema(_checked(columns))
        task, names = self._plan(topic, start, end)
        rows = _rows(self.url, self._storage, task, names, schema.names)
        return pa.RecordBatchReader.from_batches(schema, rows)

    def close(self) -> None:
        """Readers that are being read go on."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> LogView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<logstore {self.url}{' closed' if self._log is None else ''}>"

    def _plan(self, topic: str, start: Bounds, end: Bounds) -> tuple[ReadTask, Mapping[bytes, str]]:
        metadata = self._metadata(_Single(topic))
        extents = metadata.look()
        try:
            return _planned(metadata, extents, topic, start, end)
        except (Corrupt, NotFound, BelowTrimPoint):
            # Something has moved to the table since the rows were read.
            return _planned(metadata, metadata.look(reload_tables=True), topic, start, end)

    def _metadata(self, topics: TopicFilter) -> LogMetadata:
        log = self._log
        if log is None:
            raise Invalid(f"the log is closed: url={self.url}; call logstore.open again")
        return LogMetadata(
            self.url,
            topics,
            self._storage,
            open_log=lambda url, storage: log,
            open_tables=lambda url, storage: open_tables(url, storage, log.runner.store),
        )


class _Every:
    def of(self, existing: Iterable[str]) -> list[str]:
        return sorted(existing)

    def means_partition(self, topic: str, partition: int) -> bool:
        return True


class _Single:
    def __init__(self, topic: str) -> None:
        self._topic = topic

    def of(self, existing: Iterable[str]) -> list[str]:
        return [name for name in existing if name == self._topic]

    def means_partition(self, topic: str, partition: int) -> bool:
        return True


def open_view(url: str, *, storage: Mapping[str, str] | None = None) -> LogView:
    """The log at `url`: a directory, or s3://BUCKET/PREFIX.

    `storage` are `storage.*` settings, spelt as for brokers and Spark: `storage.endpoint`,
    `storage.region`, `storage.profile`, …; what they do not say the AWS environment does. Raises
    `Invalid` for a URL or setting that means nothing, `Refused` where there is no log.
    """
    return LogView(url, storage or {})


def _checked(columns: Sequence[str] | None) -> Sequence[str]:
    if isinstance(columns, str):
        raise Invalid(f"columns is a string: {columns!r}; give a list: [{columns!r}]")
    return DEFAULT_COLUMNS if columns is None else columns


def _planned(
    metadata: LogMetadata, extents: Extents, topic: str, start: Bounds, end: Bounds
) -> tuple[ReadTask, Mapping[bytes, str]]:
    if topic not in extents:
        raise Invalid(f"no such topic: {topic}; LogView.topics() lists those that there are")
    extent = extents[topic]

    def offset_for_time(partition: int, time_ms: int) -> int | None:
        return metadata.offset_for_time(extent.topic_id, partition, time_ms)

    places = metadata.places(ranges_of(topic, extent, start, end, offset_for_time))
    task = ReadTask(tuple(in_order(places.segment_ranges)), tuple(places.history))
    return task, {extent.topic_id: topic}


def _rows(
    url: str,
    storage: Mapping[str, str],
    task: ReadTask,
    names: Mapping[bytes, str],
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Opens the store when the first row is asked for, and closes it after the last."""
    store = open_objects(url, storage)
    try:
        settings: Storage = tuple(sorted(storage.items()))
        missing = Resolver(
            url,
            settings,
            names,
            fail_on_data_loss=True,
            remedy=REMEDY,
            open_tables=lambda url, storage: open_tables(url, storage, store),
        )
        yield from read_rows(store, task, names, columns, missing)
    finally:
        store.close()
