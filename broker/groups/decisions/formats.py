"""Records of `__consumer_offsets`, byte for byte as Kafka writes them.

    key    version int16 | fields       0, 1: a committed offset    2: a group
    value  version int16 | fields       null: the key is deleted (a tombstone)

Keys are always of a version without compact fields. Of values we write the versions that Kafka
4 writes for the same content, and read all that it ever wrote. Keys of other versions (groups of
KIP-848 and later) are decoded as None, values of newer ones raise `NewerVersion`: both are kept
byte for byte (`newer`). Pure.

Source: Apache Kafka, group-coordinator/src/main/resources/common/message: OffsetCommitKey,
OffsetCommitValue, GroupMetadataKey, GroupMetadataValue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.groups.decisions.fields import FieldReader, FieldWriter
from logstore.errors import Corrupt
from logstore.wire.primitives import ZERO_UUID

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
NEVER = -1
NO_EPOCH = -1
TOPIC_ID_TAG = 0
GROUP_WRITTEN = 3
OFFSET_WRITTEN, OFFSET_WRITTEN_WITH_EXPIRY = 4, 1
VALUE_MAX = 4
COMPACT_FROM = 4


class NewerVersion(Corrupt):
    """A value of a version that we do not know yet."""


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


Key = OffsetKey | GroupKey


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """`expire_ms` is what an old client asked for, else -1: then the broker's retention rules."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = NEVER
    topic_id: bytes = ZERO_UUID
    """Zero: committed without one, valid for whatever bears the topic's name."""


@dataclass(frozen=True, slots=True)
class MemberValue:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the protocol that the group chose."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int
    """When the group came into this state; -1 for a generation whose leader has yet to assign."""
    members: Sequence[MemberValue]


def encode_key(key: Key) -> bytes:
    if isinstance(key, OffsetKey):
        front = FieldWriter().int16(1).string(key.group).string(key.topic)
        return front.int32(key.partition).done()
    return FieldWriter().int16(GROUP_KEY).string(key.group).done()


def decode_key(data: bytes) -> Key | None:
    """None: a kind of key that is not ours. Raises `Corrupt`."""
    fields = FieldReader(data)
    version = fields.int16()
    if version in OFFSET_KEYS:
        return OffsetKey(fields.string(), fields.string(), fields.int32())
    return GroupKey(fields.string()) if version == GROUP_KEY else None


def encode_offset(value: CommittedOffset) -> bytes:
    """Version 1 is the only one that can carry an expiry; it has neither epoch nor topic id."""
    if value.expire_ms != NEVER:
        old = FieldWriter().int16(OFFSET_WRITTEN_WITH_EXPIRY).int64(value.offset)
        return old.string(value.metadata).int64(value.commit_ms).int64(value.expire_ms).done()
    fields = FieldWriter(is_compact=True).int16(OFFSET_WRITTEN)
    fields.int64(value.offset).int32(value.leader_epoch).string(value.metadata)
    tags = {} if value.topic_id == ZERO_UUID else {TOPIC_ID_TAG: value.topic_id}
    return fields.int64(value.commit_ms).tags(tags).done()


def decode_offset(data: bytes) -> CommittedOffset:
    """Raises `Corrupt`."""
    fields = FieldReader(data)
    version = _version(fields)
    offset = fields.int64()
    epoch = fields.int32() if version >= 3 else NO_EPOCH
    metadata, commit_ms = fields.string(), fields.int64()
    expire_ms = fields.int64() if version == 1 else NEVER
    topic_id = fields.tags().get(TOPIC_ID_TAG, ZERO_UUID)
    if len(topic_id) != len(ZERO_UUID):
        raise Corrupt(f"topic id of {len(topic_id)} bytes in a committed offset")
    return CommittedOffset(offset, epoch, metadata, commit_ms, expire_ms, topic_id)


def encode_group(value: GroupValue) -> bytes:
    fields = FieldWriter().int16(GROUP_WRITTEN).string(value.protocol_type)
    fields.int32(value.generation).string(value.protocol).string(value.leader)
    fields.int64(value.state_ms).count(len(value.members))
    for member in value.members:
        fields.string(member.member_id).string(member.instance_id).string(member.client_id)
        fields.string(member.client_host).int32(member.rebalance_timeout_ms)
        fields.int32(member.session_timeout_ms)
        fields.blob(member.subscription).blob(member.assignment)
    return fields.done()


def decode_group(data: bytes) -> GroupValue:
    """Raises `Corrupt`."""
    fields = FieldReader(data)
    version = _version(fields)
    protocol_type, generation = fields.string(), fields.int32()
    protocol, leader = fields.nullable_string(), fields.nullable_string()
    state_ms = fields.int64() if version >= 2 else NEVER
    members = [_decode_member(fields, version) for _ in range(fields.count())]
    fields.tags()
    return GroupValue(protocol_type, generation, protocol, leader, state_ms, members)


def _decode_member(fields: FieldReader, version: int) -> MemberValue:
    member_id = fields.string()
    instance_id = fields.nullable_string() if version >= 3 else None
    client_id, client_host = fields.string(), fields.string()
    rebalance_ms = fields.int32() if version >= 1 else NEVER
    session_ms = fields.int32()
    subscription, assignment = fields.blob(), fields.blob()
    fields.tags()
    return MemberValue(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_ms if rebalance_ms == NEVER else rebalance_ms,
        session_ms,
        subscription,
        assignment,
    )


def _version(fields: FieldReader) -> int:
    version = fields.int16()
    if version > VALUE_MAX:
        raise NewerVersion(f"a value of a newer version: version={version} known={VALUE_MAX}")
    if version < 0:
        raise Corrupt(f"unknown version of a value: {version}")
    fields.is_compact = version >= COMPACT_FROM
    return version
