"""Deletes what sinks staged and no leader will copy any more (`protocol.sinks.staging_disposal`).

    one LIST of staging/ ─► per batch  without a manifest, old: a void one is created
                                       with one: manifest ─► states in checkpoints ─► deletions
                                       with one and nothing else: deleted once it is over

States are those of durable checkpoints, not of what a leader says: such a state is at the end of no
chain that could still be sealed below it. Every pass asks everything again; several at once do no
harm. A pass looks at `BATCHES_MAX` batches with objects, the oldest of each sink first.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from logstore.errors import AlreadyExists, Corrupt, LogstoreError, NotFound, Refused
from logstore.formats.chain_row import ChainRow
from logstore.formats.chain_state import ChainState
from logstore.formats.manifest import Manifest, ManifestHead, encode_manifest
from logstore.formats.staged_object import StagedBuilder
from logstore.formats.staging_keys import STAGING, SinkBatch
from logstore.formats.topic_partition import TopicPartition
from logstore.protocol.chain.seal import read_chain_row
from logstore.protocol.chain.walk import ATTEMPTS_MAX, list_retrying, read_chain_at
from logstore.protocol.sinks.sink_states import deleted_topics, sink_states
from logstore.protocol.sinks.staged_reads import read_manifest
from logstore.protocol.sinks.staging_disposal import (
    StagedBatchKeys,
    group_keys,
    is_abandoned,
    is_complete,
    is_over,
    objects_to_delete,
    partitions_in_doubt,
)
from logstore.protocol.steps import (
    BelievedMs,
    Create,
    Delete,
    DrawNonce,
    Gather,
    ModifiedMs,
    NowMs,
    Steps,
    retried,
)

BATCHES_MAX = 1_000
DELETED_AT_ONCE = 256
SWEEPER = "logstore sweeper"
"""The query that a void manifest names."""


@dataclass(slots=True)
class SweptStaging:
    """Result of one pass."""

    voided: int = 0
    objects: int = 0
    manifests: int = 0
    waiting: int = 0
    """Batches that have objects left."""
    troubles: int = 0
    """Batches whose manifest cannot be read."""


def sweep_staging(cluster_id: bytes, grace_ms: int) -> Steps[SweptStaging]:
    """One pass. `grace_ms`: for so long after its manifest a batch is left alone.

    Raises as stores and registry do, and `Corrupt` for a checkpoint that cannot be read; what was
    deleted until then was allowed.
    """
    batches = group_keys((yield from list_retrying(STAGING)))
    now_ms: int = yield BelievedMs()
    swept = SweptStaging()
    yield from _void_abandoned(cluster_id, batches, now_ms, swept)
    found = yield from _read_manifests(cluster_id, batches, now_ms - grace_ms, swept)
    at_checkpoint = partial(_at_its_checkpoint, cluster_id)
    states = yield from sink_states(partitions_in_doubt(found.values()), at_checkpoint)
    gone = yield from deleted_topics({one.topic_id for one in states})

    def is_through(partition: TopicPartition, batch: SinkBatch) -> bool:
        sinks = [known[batch.sink] for known in states[partition] if batch.sink in known]
        return partition.topic_id in gone or is_complete(sinks, batch.batch)

    for batch, manifest in found.items():
        stored = batches[batch]
        going = objects_to_delete(manifest, batch, stored.objects, is_through, now_ms)
        yield from _delete([name.key(batch) for name in going])
        swept.objects += len(going)
        swept.waiting += len(going) < len(stored.objects)
    yield from _delete_old_manifests(cluster_id, batches, now_ms, swept)
    return swept


def _void_abandoned(
    cluster_id: bytes,
    batches: Mapping[SinkBatch, StagedBatchKeys],
    now_ms: int,
    swept: SweptStaging,
) -> Steps[None]:
    """Before anything of a batch without a manifest goes, none of it can count any more."""
    for batch, stored in batches.items():
        if stored.has_manifest:
            continue
        newest_ms = yield from _newest_ms([name.key(batch) for name in stored.objects])
        if newest_ms is not None and is_abandoned(newest_ms, now_ms):
            yield from _void(cluster_id, batch)
            swept.voided += 1
        swept.waiting += 1


def _newest_ms(keys: Sequence[str]) -> Steps[int | None]:
    """The time of the newest of these objects; None where one has just gone."""
    newest: int | None = None
    for key in keys:
        try:
            modified_ms: int = yield from retried(ModifiedMs(key), attempts_max=ATTEMPTS_MAX)
        except NotFound:
            return None
        newest = modified_ms if newest is None else max(newest, modified_ms)
    return newest


def _void(cluster_id: bytes, batch: SinkBatch) -> Steps[None]:
    nonce: bytes = yield DrawNonce()
    created_ms: int = yield NowMs()
    head = ManifestHead(query_id=SWEEPER, run_id="", rows={}, is_void=True)
    parts = encode_manifest(
        batch, head, StagedBuilder(), cluster_id=cluster_id, nonce=nonce, created_ms=created_ms
    )
    with suppress(AlreadyExists):  # the driver was first, or an attempt whose answer was lost
        yield from retried(Create(batch.manifest_key, parts), attempts_max=ATTEMPTS_MAX)


def _read_manifests(
    cluster_id: bytes,
    batches: Mapping[SinkBatch, StagedBatchKeys],
    stored_until_ms: int,
    swept: SweptStaging,
) -> Steps[dict[SinkBatch, Manifest]]:
    """Manifests of batches with objects, stored a grace ago."""
    found: dict[SinkBatch, Manifest] = {}
    for batch, stored in batches.items():
        if not stored.has_manifest or not stored.objects or len(found) >= BATCHES_MAX:
            continue
        modified_ms = yield from _newest_ms([batch.manifest_key])
        if modified_ms is None or modified_ms > stored_until_ms:
            swept.waiting += 1
            continue
        manifest = yield from _manifest(cluster_id, batch, swept)
        if manifest is not None:
            found[batch] = manifest
    return found


def _manifest(cluster_id: bytes, batch: SinkBatch, swept: SweptStaging) -> Steps[Manifest | None]:
    """One that cannot be read keeps its objects: nothing says that they are not needed."""
    try:
        return (yield from read_manifest(batch, cluster_id)).manifest
    except (Corrupt, Refused):
        swept.troubles += 1
    except NotFound:
        pass  # another sweeper was here
    return None


def _at_its_checkpoint(cluster_id: bytes, epoch: int) -> Steps[ChainState | None]:
    row: ChainRow = yield from read_chain_row(epoch)
    if not row.checkpoint:
        return None
    return (yield from read_chain_at(cluster_id, epoch, row.checkpoint))


def _delete_old_manifests(
    cluster_id: bytes,
    batches: Mapping[SinkBatch, StagedBatchKeys],
    now_ms: int,
    swept: SweptStaging,
) -> Steps[None]:
    """Manifests of batches without objects. Those of a sink are in the order of their age, so of
    each sink one is read that stays."""
    staying: set[bytes] = set()
    for batch, stored in batches.items():
        if not stored.has_manifest or stored.objects or batch.sink in staying:
            continue
        manifest = yield from _manifest(cluster_id, batch, swept)
        if manifest is None:
            continue
        if is_over(batch, manifest.header.created_ms, now_ms):
            yield from _delete([batch.manifest_key])
            swept.manifests += 1
        else:
            staying.add(batch.sink)


def _delete(keys: Sequence[str]) -> Steps[None]:
    for at in range(0, len(keys), DELETED_AT_ONCE):
        some = keys[at : at + DELETED_AT_ONCE]
        outcomes: Sequence[LogstoreError | None] = yield Gather(
            [retried(Delete(key), attempts_max=ATTEMPTS_MAX) for key in some]
        )
        for outcome in outcomes:
            if isinstance(outcome, LogstoreError):
                raise outcome
