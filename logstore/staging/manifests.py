"""The manifest of a batch: created once, on a condition; one that is found is the truth.

A driver that restarts, a second driver of the same checkpoint, a replay of the batch with other
rows: each offers what its tasks staged, and the first manifest decides. What the others staged is
swept later.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from logstore.errors import Invalid
from logstore.formats.manifest import (
    INLINE_BYTES_MAX,
    Manifest,
    ManifestHead,
    ManifestTopic,
    decode_manifest,
    encode_manifest,
)
from logstore.formats.staged_object import StagedBuilder, StagedRef
from logstore.formats.staging_keys import SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.ports.clock import Clock
from logstore.runners.retrying import RetryingStore
from logstore.staging.task import ObjectWriter, StagedTask

ATTEMPT_BITS = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedBatch:
    """One attempt of a batch, whole: the winning attempt of each task."""

    batch: SinkBatch
    query_id: str
    run_id: str
    topics: Sequence[ManifestTopic]
    tasks: Sequence[StagedTask]
    older: SinkBatch | None = None
    """The batch as its sink was identified before (`older_sinks`); None: as now."""

    def rows(self) -> dict[TopicPartition, int]:
        total: dict[TopicPartition, int] = {}
        for task in self.tasks:
            for partition, count in task.rows.items():
                total[partition] = total.get(partition, 0) + count
        return total


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """`is_ours`: whether the manifest names what was offered, or what another attempt staged."""

    manifest: Manifest
    is_ours: bool


class Manifests:
    """Manifests of one log."""

    def __init__(
        self,
        store: RetryingStore,
        cluster_id: bytes,
        *,
        clock: Clock,
        rng: random.Random,
        draw_nonce: Callable[[], bytes],
        inline_bytes_max: int = INLINE_BYTES_MAX,
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._rng = rng
        self._draw_nonce = draw_nonce
        self._inline_bytes_max = inline_bytes_max

    def fix(self, offered: OfferedBatch) -> FixedBatch:
        """The one manifest of the batch, created or found. Raises `Invalid` where it is another
        query's or void, `Corrupt` where it is damaged, and as stores do."""
        data = self._encode(offered)
        batch = offered.batch
        if self._store.create_equal(batch.manifest_key, data):
            return FixedBatch(decode_manifest(data, batch, cluster_id=self._cluster_id), True)
        found = decode_manifest(
            self._store.get(batch.manifest_key), batch, cluster_id=self._cluster_id
        )
        check_usable(found, offered.query_id)
        return FixedBatch(found, False)

    def _encode(self, offered: OfferedBatch) -> bytes:
        inline, refs = StagedBuilder(), list[StagedRef]()
        for task in sorted(offered.tasks, key=lambda task: task.task):
            surplus = inline.size_bytes + task.inline_bytes > self._inline_bytes_max
            refs += self._stage(offered.batch, task) if surplus else task.objects
            if not surplus:
                for partition, batch in task.inline:
                    inline.add(partition, batch)
        rows = offered.rows()
        used = {partition.topic_id for partition in rows}
        head = ManifestHead(
            query_id=offered.query_id,
            run_id=offered.run_id,
            topics=[topic for topic in offered.topics if topic.topic_id in used],
            rows=rows,
            objects=refs,
        )
        parts = encode_manifest(
            offered.batch,
            head,
            inline,
            cluster_id=self._cluster_id,
            nonce=self._draw_nonce(),
            created_ms=self._clock.now_ms(),
        )
        return b"".join(parts)

    def _stage(self, batch: SinkBatch, task: StagedTask) -> list[StagedRef]:
        """Put for a task what a manifest has no room for."""
        writer = ObjectWriter(
            self._store,
            batch,
            task=task.task,
            attempt=self._rng.getrandbits(ATTEMPT_BITS),
            cluster_id=self._cluster_id,
            draw_nonce=self._draw_nonce,
            clock=self._clock,
        )
        builder = StagedBuilder()
        for partition, one in task.inline:
            builder.add(partition, one)
        writer.put(builder)
        return writer.refs


def check_usable(found: Manifest, query_id: str) -> None:
    """Raises `Invalid` unless a batch of `query_id` may go on with this manifest."""
    if found.head.is_void:
        raise Invalid(
            f"the staged objects of this batch were swept, it was not committed in time: "
            f"key={found.key}; start the query with a new sinkId to write the batch"
        )
    if found.head.query_id != query_id:
        raise Invalid(
            f"another query writes to the same sink: batch={found.header.seq} "
            f"theirs={found.head.query_id} ours={query_id}; give this query a sinkId of its own"
        )


def row_changes(
    then: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
) -> tuple[int, int] | None:
    """Rows of the attempt that counts and of the one that came later, if they are not alike."""
    return None if then == now else (sum(then.values()), sum(now.values()))
