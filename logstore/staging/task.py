"""One attempt of one task: batches in, staged objects out.

A task puts an object whenever it has gathered `OBJECT_BYTES`, so its memory does not grow with its
rows. A task of little puts none: its batches travel to the driver, which stores them in the
manifest. So a small micro-batch costs one put.

Objects are named by task and attempt. The attempt is drawn at random: Spark's own numbers begin
again with each driver, and an object of another attempt must never be taken for ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from logstore.formats.staged_object import StagedBuilder, StagedRef
from logstore.formats.staging_keys import SinkBatch, StagedName
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import Clock
from logstore.records.crc32c import Buffer
from logstore.runners.retrying import RetryingStore

OBJECT_BYTES = 8 << 20
"""Larger: fewer puts for the same rows. Smaller: less memory in a task."""

INLINE_BYTES_MAX = 256 << 10
"""Of a task that puts no object."""

InlineBatch = tuple[TopicPartition, Buffer]


@dataclass(frozen=True, slots=True)
class StagedTask:
    """All that the driver needs of the attempt of a task; either `objects` or `inline` is empty."""

    task: int
    rows: Mapping[TopicPartition, int]
    objects: Sequence[StagedRef] = ()
    inline: Sequence[InlineBatch] = ()

    @property
    def inline_bytes(self) -> int:
        return sum(len(batch) for _, batch in self.inline)


class ObjectWriter:
    """Puts the staged objects of one attempt, numbered from 0."""

    def __init__(
        self,
        store: RetryingStore,
        batch: SinkBatch,
        *,
        task: int,
        attempt: int,
        cluster_id: bytes,
        draw_nonce: Callable[[], bytes],
        clock: Clock,
    ) -> None:
        self.task = task
        self.refs: list[StagedRef] = []
        self._store = store
        self._batch = batch
        self._attempt = attempt
        self._cluster_id = cluster_id
        self._draw_nonce = draw_nonce
        self._clock = clock

    def put(self, builder: StagedBuilder) -> None:
        """Durable when it returns. Raises as stores do, after retries."""
        name = StagedName(self.task, self._attempt, len(self.refs))
        nonce = self._draw_nonce()
        parts = builder.freeze(
            self._batch,
            cluster_id=self._cluster_id,
            nonce=nonce,
            created_ms=self._clock.now_ms(),
        )
        self._store.create_settled(name.key(self._batch), parts)
        self.refs.append(StagedRef(name, nonce, sum(map(len, parts))))


class TaskStager:
    """Gathers the batches of one attempt. Batches of a partition stay in the order of `add`."""

    def __init__(self, writer: ObjectWriter, *, object_bytes: int = OBJECT_BYTES) -> None:
        self._writer = writer
        self._object_bytes = object_bytes
        self._builder = StagedBuilder()
        self._inline: list[InlineBatch] = []
        self._rows: dict[TopicPartition, int] = {}

    def next_offset(self, partition: TopicPartition) -> int:
        """The base offset that the next batch of `partition` is to have: it needs no copy then."""
        return self._builder.next_offset(partition)

    def add(self, partition: TopicPartition, batch: Buffer) -> None:
        """Raises `Invalid` for a batch that may not be staged, and as stores do."""
        self._builder.add(partition, batch)
        self._inline.append((partition, batch))
        if self._builder.size_bytes >= self._object_bytes:
            self._put()

    def finish(self) -> StagedTask:
        """The last object is put, if need be. Nothing is added after that."""
        if self._builder.size_bytes and (
            self._writer.refs or self._builder.size_bytes >= INLINE_BYTES_MAX
        ):
            self._put()
        self._count_rows()
        return StagedTask(self._writer.task, self._rows, self._writer.refs, self._inline)

    def _put(self) -> None:
        self._writer.put(self._builder)
        self._count_rows()
        self._builder = StagedBuilder()
        self._inline.clear()

    def _count_rows(self) -> None:
        for partition, count in self._builder.rows().items():
            self._rows[partition] = self._rows.get(partition, 0) + count
