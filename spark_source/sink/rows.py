"""Rows of Spark as records: topic and partition of each, and whether the topic takes it.

The partition of a row is that of its column, else Kafka's for its key, else one for each thousand
rows without a key, drawn from (batch, task, number of the row): the same rows go the same way
however often they are written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from logstore.errors import Invalid
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.records.arrow_schema import header_list_type
from logstore.records.lookup import LOOKUP_BYTES_MAX
from logstore.records.murmur2 import hash_keys, murmur2
from logstore.staging.topics import SinkTopic

if TYPE_CHECKING:
    import pyarrow as pa

KEYLESS_RUN_ROWS = 1000
ROW_BYTES_MAX = LOOKUP_BYTES_MAX - (64 << 10)
"""Of key and value: leaders refuse a batch that unpacks to more, however small it was packed. What
is left is for headers and the record's own fields."""
_RUN = struct.Struct(">QIQ")
_TYPES_OF_TEXT = ("key", "value")

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class RoutedRows(NamedTuple):
    """Rows of one partition, for `encode_from_arrow`; `numbers` are theirs in the task."""

    topic: SinkTopic
    partition: TopicPartition
    rows: pa.RecordBatch
    numbers: Numbers


class RowRouter:
    """Routes the rows of one task, in order."""

    def __init__(
        self,
        columns: Mapping[str, int],
        topic: str | None,
        topics: Mapping[str, SinkTopic],
        batch: SinkBatch,
        task: int,
    ) -> None:
        self._columns = columns
        self._topic = topic
        self._topics = topics
        self._batch = batch
        self._task = task
        self._row_count = 0

    def route(self, given: pa.RecordBatch, now_ms: int) -> Iterator[RoutedRows]:
        """Groups by topic and partition; in each the rows keep their order.

        Raises `Invalid`, naming row, topic and limit, for a row that cannot be written.
        """
        if not given.num_rows:
            return
        first = self._row_count
        self._row_count += given.num_rows
        rows = self._records(given, now_ms)
        names, places = self._topics_of(given, first)
        hashes = hash_keys(rows.column("key")).to_numpy().astype(np.int64)
        keyless = np.flatnonzero(hashes < 0)
        hashes[keyless] = self._keyless_hashes(first + keyless)
        counts = np.array([self._topics[name].partitions for name in names], np.int64)
        partitions = hashes % counts[places]
        self._put_explicit(given, partitions, counts[places], names, places, first)
        for number, name in enumerate(names):
            mine = slice(None) if len(names) == 1 else places == number
            _check_rows(self._topics[name], rows, mine, keyless, first, now_ms)
        for place, partition, chosen in _grouped(places, partitions):
            topic = self._topics[names[place]]
            yield RoutedRows(
                topic,
                TopicPartition(topic.topic_id, partition),
                rows if chosen is None else rows.take(chosen),
                first + (np.arange(len(partitions)) if chosen is None else chosen),
            )

    def _records(self, given: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
        import pyarrow as pa

        count = given.num_rows
        arrays: dict[str, pa.Array] = {}
        for name in _TYPES_OF_TEXT:
            column = self._column(given, name)
            arrays[name] = pa.nulls(count, pa.binary()) if column is None else _binary(column)
        headers = self._column(given, "headers")
        if headers is not None and headers.null_count < count:
            kind = header_list_type()
            arrays["headers"] = headers if headers.type.equals(kind) else headers.cast(kind)
        arrays["timestamp_ms"] = pa.array(
            _timestamps_ms(self._column(given, "timestamp"), count, now_ms)
        )
        return pa.RecordBatch.from_pydict(arrays)

    def _column(self, given: pa.RecordBatch, name: str) -> pa.Array | None:
        place = self._columns.get(name)
        return None if place is None else given.column(place)

    def _topics_of(self, given: pa.RecordBatch, first: int) -> tuple[list[str], Numbers]:
        """Topics of these rows, and which one each row goes to."""
        if self._topic is not None:
            return [self._topic], np.zeros(given.num_rows, np.int64)
        column = given.column(self._columns["topic"])
        if column.null_count:
            row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise Invalid(f"a row without a topic: row={row}; fill the column topic")
        encoded = column.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        places = encoded.indices.to_numpy().astype(np.int64)
        for number, name in enumerate(names):
            if name not in self._topics:
                row = first + int(np.flatnonzero(places == number)[0])
                raise Invalid(
                    f"no such topic: row={row} topic={name}; create it first, the sink creates none"
                )
        return names, places

    def _keyless_hashes(self, numbers: Numbers) -> Numbers:
        runs, places = np.unique(numbers // KEYLESS_RUN_ROWS, return_inverse=True)
        hashes = [
            murmur2(_RUN.pack(self._batch.batch, self._task, int(run))) & 0x7FFFFFFF for run in runs
        ]
        return np.array(hashes, np.int64)[places]

    def _put_explicit(
        self,
        given: pa.RecordBatch,
        partitions: Numbers,
        counts: Numbers,
        names: list[str],
        places: Numbers,
        first: int,
    ) -> None:
        column = self._column(given, "partition")
        if column is None or column.null_count == len(column):
            return
        chosen = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        wanted = column.fill_null(-1).to_numpy().astype(np.int64)[chosen]
        wrong = np.flatnonzero((wanted < 0) | (wanted >= counts[chosen]))
        if len(wrong):
            at = chosen[wrong[0]]
            raise Invalid(
                f"no such partition: row={first + int(at)} topic={names[places[at]]} "
                f"partition={wanted[wrong[0]]} partitions={counts[at]}"
            )
        partitions[chosen] = wanted


def _binary(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return column if column.type.equals(pa.binary()) else column.cast(pa.binary())


def _timestamps_ms(column: pa.Array | None, count: int, now_ms: int) -> Numbers:
    import pyarrow as pa

    if column is None:
        return np.full(count, now_ms, np.int64)
    micros = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    found: Numbers = micros.fill_null(now_ms * 1000).to_numpy() // 1000
    return found


def _check_rows(
    topic: SinkTopic,
    rows: pa.RecordBatch,
    mine: Any,
    keyless: Numbers,
    first: int,
    now_ms: int,
) -> None:
    """Rules of the topic that need no encoding. `mine` selects the topic's rows."""
    limits = topic.limits
    if limits.is_compacted and len(keyless):
        own = keyless if isinstance(mine, slice) else keyless[mine[keyless]]
        if len(own):
            raise Invalid(
                f"a row without a key on a compacted topic: row={first + int(own[0])} "
                f"topic={topic.name} cleanup.policy=compact"
            )
    if rows.nbytes > ROW_BYTES_MAX:
        _check_sizes(topic, rows, mine, first)
    low, high = limits.timestamps_allowed(now_ms)
    stamps = rows.column("timestamp_ms").to_numpy()
    wrong = np.flatnonzero(((stamps < low) | (stamps > high) | (stamps < -1)) & _mask(mine, stamps))
    if len(wrong):
        raise Invalid(
            f"timestamp out of range: row={first + int(wrong[0])} topic={topic.name} "
            f"timestamp={stamps[wrong[0]]} allowed={low}..{high} by "
            f"message.timestamp.before.max.ms={limits.before_ms_max} "
            f"message.timestamp.after.max.ms={limits.after_ms_max}"
        )


def _check_sizes(topic: SinkTopic, rows: pa.RecordBatch, mine: Any, first: int) -> None:
    import pyarrow.compute as pc

    sizes = sum(
        pc.binary_length(rows.column(name)).fill_null(0).to_numpy().astype(np.int64)
        for name in _TYPES_OF_TEXT
    )
    large = np.flatnonzero((sizes > ROW_BYTES_MAX) & _mask(mine, sizes))
    if len(large):
        raise Invalid(
            f"a row larger than any record may be before compression: "
            f"row={first + int(large[0])} topic={topic.name} bytes={sizes[large[0]]} "
            f"bytes_max={ROW_BYTES_MAX}; write it as several rows"
        )


def _mask(mine: Any, like: Numbers) -> Any:
    return np.ones(len(like), bool) if isinstance(mine, slice) else mine


def _grouped(places: Numbers, partitions: Numbers) -> Iterator[tuple[int, int, Numbers | None]]:
    """(topic, partition, its rows in order) of all that occur; None: all rows."""
    codes = places * (int(partitions.max()) + 1) + partitions
    if codes.min() == codes.max():
        yield int(places[0]), int(partitions[0]), None
        return
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for chosen in np.split(order, ends):
        yield int(places[chosen[0]]), int(partitions[chosen[0]]), chosen
