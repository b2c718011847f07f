"""The staged objects and manifests that may be deleted, and the batches to give up. Pure.

An object X of a batch of a sink may go when

    (a) a manifest of the batch exists, so that no other attempt will ever count
    (b) it is void, or does not name X, or every partition that it has rows for is through with it:
        its topic is deleted, or a durable checkpoint says that the batch, or a later one of the
        sink, is complete there; or the manifest is so old that every leader refuses it
    (c) a grace has passed since the manifest was stored, and (a) and (b) hold now

By (b) no leader will copy X any more: one that is late, and misses an object, judges the partition
again and finds the batch there. A batch without a manifest is given up a day after its newest
object: a void manifest is created first, which the driver's own cannot replace.

A manifest stays while leaders would adopt it: a driver that comes back finds it, and does not make
another one for a batch that is adopted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logstore.formats.manifest import Manifest
from logstore.formats.partition_state import Sink, sink_expiration_ms
from logstore.formats.staging_keys import SinkBatch, StagedName, place_of
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.sinks.verdicts import DAY_MS

ABANDONED_MS = DAY_MS
"""After so long without a new object a batch without a manifest is given up."""

IsThrough = Callable[[TopicPartition, SinkBatch], bool]
"""Whether a partition will never copy anything of a batch again."""


@dataclass(slots=True)
class StagedBatchKeys:
    """The stored keys of one batch of a sink."""

    has_manifest: bool = False
    objects: list[StagedName] = field(default_factory=list)


def group_keys(keys: Iterable[str]) -> dict[SinkBatch, StagedBatchKeys]:
    """Of each sink the batches in order. Keys of other things are left out."""
    batches: dict[SinkBatch, StagedBatchKeys] = {}
    for key in sorted(keys):
        place = place_of(key)
        if place is None:
            continue
        batch, name = place
        stored = batches.setdefault(batch, StagedBatchKeys())
        if name is None:
            stored.has_manifest = True
        else:
            stored.objects.append(name)
    return batches


def is_abandoned(newest_ms: int, now_ms: int) -> bool:
    return now_ms - newest_ms >= ABANDONED_MS


def is_over(batch: SinkBatch, made_ms: int, now_ms: int) -> bool:
    """Whether every leader refuses a manifest of this age, whatever its clock says."""
    return now_ms - made_ms >= sink_expiration_ms(batch.batch) + DAY_MS


def objects_to_delete(
    manifest: Manifest,
    batch: SinkBatch,
    objects: Collection[StagedName],
    is_through: IsThrough,
    now_ms: int,
) -> Sequence[StagedName]:
    """Those of `objects` that may go by (b)."""
    named = {ref.name for ref in manifest.head.objects}
    losers = [name for name in objects if name not in named]
    if len(losers) == len(objects):
        return losers
    if is_over(batch, manifest.header.created_ms, now_ms) or all(
        is_through(partition, batch) for partition in manifest.head.rows
    ):
        return list(objects)
    return losers


def is_complete(sinks: Iterable[Sink], batch: int) -> bool:
    """Whether one of these states of a partition has all of `batch`, or a later one."""
    return any(sink.batch > batch or (sink.batch == batch and sink.is_done) for sink in sinks)


def partitions_in_doubt(manifests: Iterable[Manifest]) -> set[TopicPartition]:
    """The partitions whose states are to be looked at."""
    return {one for manifest in manifests for one in manifest.head.rows}


States = Mapping[TopicPartition, Sequence[Mapping[bytes, Sink]]]
"""Of each partition, its sinks in each durable checkpoint that knows the partition."""
