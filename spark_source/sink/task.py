"""One task of a write, in the process of an executor: rows in, staged or sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from logstore.errors import Invalid
from logstore.formats.manifest import ManifestTopic
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import Clock
from logstore.records.arrow_encode import encode_from_arrow
from logstore.records.batch import HEADER_BYTES, Codec
from logstore.records.crc32c import Buffer
from logstore.staging.topics import SinkTopic
from spark_source.sink.rows import RoutedRows, RowRouter

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES_MAX = 1 << 20
"""Before compression; a topic may allow less."""

GATHERED_BYTES = 4 << 20
"""Small Arrow batches are taken together, so that each partition's batches are not tiny."""

_COUNT_AT = 57


class TaskIdentity(NamedTuple):
    """Of which batch, query and run the rows of a task are."""

    batch: SinkBatch
    task: int
    query_id: str
    run_id: str
    older: SinkBatch | None = None
    """The batch as its sink was identified before the query's id was part of it."""


class BatchTaker(Protocol):
    """A stager, or a sender."""

    def next_offset(self, partition: TopicPartition) -> int: ...
    def add(self, partition: TopicPartition, batch: Buffer) -> None: ...


def write_rows(
    batches: Iterable[pa.RecordBatch],
    router: RowRouter,
    taker: BatchTaker,
    codec: Codec,
    clock: Clock,
    *,
    gathered_bytes: int = GATHERED_BYTES,
) -> dict[bytes, SinkTopic]:
    """Every row encoded and given to `taker`. Returns the topics that got any, by topic id."""
    topics: dict[bytes, SinkTopic] = {}
    for rows in gathered(batches, gathered_bytes):
        for group in router.route(rows, clock.now_ms()):
            topics[group.topic.topic_id] = group.topic
            encode_group(group, taker, codec)
    return topics


def encode_group(group: RoutedRows, taker: BatchTaker, codec: Codec) -> None:
    """Raises `Invalid` for a record that is larger than its topic allows."""
    limit = group.topic.limits.batch_bytes_max
    done = 0
    for batch in encode_from_arrow(
        group.rows,
        bytes_max=max(min(limit, BATCH_BYTES_MAX), HEADER_BYTES),
        base_offset=taker.next_offset(group.partition),
        compression=codec,
    ):
        if len(batch) > limit:
            raise Invalid(
                f"record larger than its topic allows: row={group.numbers[done]} "
                f"topic={group.topic.name} bytes={len(batch)} max.message.bytes={limit}"
            )
        taker.add(group.partition, batch)
        done += int.from_bytes(batch[_COUNT_AT : _COUNT_AT + 4], "big")


def gathered(batches: Iterable[pa.RecordBatch], bytes_min: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order: small batches joined to `bytes_min` or more."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= bytes_min:
            yield from _joined(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    import pyarrow as pa

    if len(batches) == 1:
        return batches
    joined: Sequence[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def manifest_topics(topics: Iterable[SinkTopic]) -> list[ManifestTopic]:
    return [ManifestTopic(topic.name, topic.topic_id, topic.partitions) for topic in topics]
