"""Small stored objects of every kind, made of fixed values; their bytes are in the files beside.

A file `NAME.hex` holds what the format in its name makes of the sample NAME. A format that changes
gets new files under a new name; the old ones stay, and must still be read.
"""

from collections.abc import Callable
from pathlib import Path

from logstore.epoch.writer import NO_EPOCH_RANGE
from logstore.formats.acl_record import AclRecord, encode_acl_record
from logstore.formats.acl_row import AclRow
from logstore.formats.chain_state import ChainState, EpochKey
from logstore.formats.checkpoint import encode_checkpoint
from logstore.formats.leadership_payload import StateChunk, encode_chunks, encode_inline
from logstore.formats.manifest import ManifestHead, ManifestTopic, encode_manifest
from logstore.formats.partition_state import AbortedTransaction, PartitionState, Sink, encode_state
from logstore.formats.segment import AdoptEnd, EntryKind, SegmentKind, decode_front
from logstore.formats.segment_builder import (
    Arena,
    FrozenSegment,
    SegmentBuilder,
    bare_header,
    freeze_bare,
)
from logstore.formats.staged_object import StagedBuilder, StagedRef
from logstore.formats.staging_keys import SinkBatch, StagedName, sink_hash
from logstore.formats.topic_partition import TopicPartition
from logstore.formats.topic_record import TopicRecord, encode_record
from logstore.formats.topic_row import TopicRow, TopicStatus
from logstore.records.batch import read_header, stamp
from logstore.records.crc32c import Buffer
from logstore.records.encode import encode_batch, records_of
from logstore.security.acls import Acl, Operation, PatternKind, Permission, ResourceKind

FOLDER = Path(__file__).parent
CLUSTER_ID = bytes(range(0xC0, 0xD0))
TOPIC_ID = bytes(range(0x70, 0x80))
EPOCH, BROKER, LEADER_EPOCH = 5, 7, 2
CREATED_MS = 1_700_000_000_000
SINK_BATCH = SinkBatch(sink_hash("orders-sink"), 9)
BYTES_IN_A_LINE = 16
SINK = bytes([0x51]) * 16


def nonce(seq: int) -> bytes:
    return bytes([seq + 1]) * 16


def state() -> PartitionState:
    """One producer of two batches, one sink, an open and an aborted transaction."""
    found = PartitionState()
    found.apply_batch(9_000, 3, 0, 40, 41, 1_000, CREATED_MS)
    found.apply_batch(9_000, 3, 2, 42, 42, 1_001, CREATED_MS + 5)
    found.sinks[SINK] = Sink(12)
    found.open_transactions[9_000] = 42
    found.aborted.append(AbortedTransaction(9_001, 10, 20))
    return found


def sink_state() -> PartitionState:
    """The same; the sink has a time: batch 13 of it is copied in part."""
    found = state()
    found.apply_adopted(AdoptEnd(SINK, 13, 2, 3, 43, 46), CREATED_MS + 20)
    return found


def batch(base_offset: int = 43) -> bytes:
    data = bytearray(
        encode_batch(
            records_of([(b"key", b"value"), (None, b"other")], timestamp=CREATED_MS + 7),
            producer_id=9_000,
            producer_epoch=3,
            base_sequence=3,
        )
    )
    stamp(data, 0, base_offset, LEADER_EPOCH)
    return bytes(data)


def copied_batch(base_offset: int) -> bytes:
    """A batch that a task staged, as a leader stamped it."""
    data = bytearray(
        encode_batch(records_of([(b"key", b"value"), (None, b"other")], timestamp=CREATED_MS + 7))
    )
    stamp(data, 0, base_offset, LEADER_EPOCH)
    return bytes(data)


def opening() -> FrozenSegment:
    return _bare(SegmentKind.OPENING, 0, bytes(16))


def data() -> FrozenSegment:
    """A take with an inline state, then one batch."""
    arena = Arena(4096)
    builder = SegmentBuilder(arena, CREATED_MS + 10)
    builder.add_state_entry(
        EntryKind.TAKE,
        topic_id=TOPIC_ID,
        partition=1,
        leader_epoch=LEADER_EPOCH,
        offset=43,
        payload=encode_inline(encode_state(state())),
    )
    added = batch()
    header = read_header(added, 0, len(added))
    position = builder.body_bytes
    builder.add_bytes(added)
    builder.add_batch_entry(
        0, 1, TOPIC_ID, LEADER_EPOCH, len(added), position, 43, 44, 9_000, 3, 3,
        header.max_timestamp, -1, 2,
    )  # fmt: skip
    return builder.freeze(
        cluster_id=CLUSTER_ID,
        epoch=EPOCH,
        seq=1,
        broker=BROKER,
        nonce=nonce(1),
        previous_nonce=nonce(0),
    )


def forgetting() -> FrozenSegment:
    """Seq 2 instead of the seal: the epoch range is forgotten, checkpoints below 1 are cut."""
    return _without_body((EntryKind.FORGET, key(), 45), (EntryKind.CUT, NO_EPOCH_RANGE, 1))


def deleted_below() -> FrozenSegment:
    """Seq 2 as well: records below 43 were deleted, and an earlier epoch range was forgotten."""
    deleted = key()._replace(leader_epoch=-1)
    return _without_body((EntryKind.DELETED_BELOW, deleted, 43))


def adopt_end() -> FrozenSegment:
    """Seq 2 as well: two batches were copied for a sink, of three."""
    builder = SegmentBuilder(Arena(4096), CREATED_MS + 20)
    for base_offset in (45, 47):
        added = copied_batch(base_offset)
        position = builder.body_bytes
        builder.add_bytes(added)
        builder.add_batch_entry(
            0, 1, TOPIC_ID, LEADER_EPOCH, len(added), position, base_offset, base_offset + 1,
            -1, -1, -1, CREATED_MS + 7, -1, 2,
        )  # fmt: skip
    builder.add_adopt_end(
        AdoptEnd(SINK, 13, 2, 3, 45, 48),
        topic_id=TOPIC_ID,
        partition=1,
        leader_epoch=LEADER_EPOCH,
    )
    return _frozen(builder)


def _without_body(*places: tuple[EntryKind, EpochKey, int]) -> FrozenSegment:
    builder = SegmentBuilder(Arena(4096), CREATED_MS + 20)
    for kind, (topic_id, partition, leader_epoch), offset in places:
        builder.add_state_entry(
            kind,
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            offset=offset,
            payload=b"",
        )
    return _frozen(builder)


def _frozen(builder: SegmentBuilder) -> FrozenSegment:
    return builder.freeze(
        cluster_id=CLUSTER_ID,
        epoch=EPOCH,
        seq=2,
        broker=BROKER,
        nonce=nonce(2),
        previous_nonce=nonce(1),
    )


def seal() -> FrozenSegment:
    return _bare(SegmentKind.SEAL, 2, nonce(1))


def chain() -> ChainState:
    """Opening and data segment, replayed."""
    found = ChainState(CLUSTER_ID, EPOCH)
    found.apply_segment(decode_front(opening().front), {})
    index = decode_front(data().front)
    found.apply_segment(index, {index.entries[0].position: encode_state(state())})
    return found


def chain_with_deleted() -> ChainState:
    found = chain()
    found.apply_segment(decode_front(deleted_below().front), {})
    return found


def chain_with_sink() -> ChainState:
    found = chain()
    found.apply_segment(decode_front(adopt_end().front), {})
    return found


def chunks() -> list[StateChunk]:
    return [StateChunk(3, 208, 1_048_576, 0x01020304), StateChunk(4, 208, 17, 0x05060708)]


def topic_record() -> TopicRecord:
    configs = {"cleanup.policy": "delete", "retention.ms": "86400000"}
    return TopicRecord("orders", TopicRow(TOPIC_ID, TopicStatus.LIVE, 3, configs, 2, version=4))


def acl_record() -> AclRecord:
    acls = (
        Acl(
            ResourceKind.TOPIC,
            "orders",
            PatternKind.PREFIXED,
            "User:alice",
            "*",
            Operation.READ,
            Permission.ALLOW,
        ),
        Acl(
            ResourceKind.CLUSTER,
            "kafka-cluster",
            PatternKind.LITERAL,
            "User:*",
            "10.0.0.7",
            Operation.ALL,
            Permission.DENY,
        ),
    )
    return AclRecord("3", AclRow(4, acls))


def _bare(kind: SegmentKind, seq: int, previous: bytes) -> FrozenSegment:
    return freeze_bare(
        bare_header(
            kind,
            cluster_id=CLUSTER_ID,
            epoch=EPOCH,
            seq=seq,
            broker=BROKER,
            nonce=nonce(seq),
            previous_nonce=previous,
            created_ms=CREATED_MS,
        )
    )


def staged_batch(key: bytes | None) -> bytes:
    """One record, as tasks of a sink encode it."""
    return encode_batch(records_of([(key, b"value")], timestamp=CREATED_MS + 7))


def staged_object() -> bytes:
    """Number 0 of attempt 12 of task 3: one batch of partition 0, two of partition 1."""
    builder = StagedBuilder()
    for partition in (1, 0, 1):
        builder.add(TopicPartition(TOPIC_ID, partition), staged_batch(b"key"))
    parts = builder.freeze(
        SINK_BATCH, cluster_id=CLUSTER_ID, nonce=nonce(4), created_ms=CREATED_MS + 10
    )
    return b"".join(parts)


def staged_ref() -> StagedRef:
    return StagedRef(StagedName(3, 12, 0), nonce(4), len(staged_object()))


def manifest() -> bytes:
    """Names the staged object, and holds a batch of partition 1 of a task that put none."""
    inline = StagedBuilder()
    inline.add(TopicPartition(TOPIC_ID, 1), staged_batch(None))
    head = ManifestHead(
        query_id="query",
        run_id="run",
        topics=[ManifestTopic("orders", TOPIC_ID, 3)],
        rows={TopicPartition(TOPIC_ID, 0): 1, TopicPartition(TOPIC_ID, 1): 3},
        objects=[staged_ref()],
    )
    return b"".join(_manifest(head, inline))


def void_manifest() -> bytes:
    head = ManifestHead(query_id="sweeper", run_id="", rows={}, is_void=True)
    return b"".join(_manifest(head, StagedBuilder()))


def _manifest(head: ManifestHead, inline: StagedBuilder) -> list[Buffer]:
    return encode_manifest(
        SINK_BATCH,
        head,
        inline,
        cluster_id=CLUSTER_ID,
        nonce=nonce(5),
        created_ms=CREATED_MS + 11,
    )


SAMPLES: dict[str, Callable[[], bytes]] = {
    "segment-1-opening": lambda: b"".join(opening().parts),
    "segment-1-data": lambda: b"".join(data().parts),
    "segment-2-forgetting": lambda: b"".join(forgetting().parts),
    "segment-3-deleted-below": lambda: b"".join(deleted_below().parts),
    "segment-4-adopt-end": lambda: b"".join(adopt_end().parts),
    "segment-1-seal": lambda: b"".join(seal().parts),
    "state-1": lambda: encode_state(state()),
    "state-2": lambda: encode_state(sink_state()),
    "take-1-pieces": lambda: encode_chunks(chunks()),
    "checkpoint-1": lambda: encode_checkpoint(chain()),
    "checkpoint-2": lambda: encode_checkpoint(chain_with_deleted()),
    "checkpoint-1-sink": lambda: encode_checkpoint(chain_with_sink()),
    "topic-record-1": lambda: encode_record(topic_record()),
    "acl-record-1": lambda: encode_acl_record(acl_record()),
    "staged-1": staged_object,
    "manifest-1": manifest,
    "manifest-1-void": void_manifest,
}


def key() -> EpochKey:
    return EpochKey(TOPIC_ID, 1, LEADER_EPOCH)


def golden(name: str) -> bytes:
    """The stored bytes of a sample."""
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text())


def dump(data: bytes) -> str:
    lines = [
        data[at : at + BYTES_IN_A_LINE].hex(" ") for at in range(0, len(data), BYTES_IN_A_LINE)
    ]
    return "\n".join(lines) + "\n"
