"""Adopt, version 0: our own request, by which the driver of a Spark sink commits what tasks staged.

Its key lies outside Kafka's range, and ApiVersions does not list it: only our own client sends it.
It names a manifest by key and nonce, and partitions that the broker leads; the broker reads the
manifest and copies the batches that it lists (`broker.handlers.adopt`).

    request    manifest key (string, int16 length) | manifest nonce 16 | timeout ms int32 |
               topics: count int32, each
                   topic id 16 | partitions: count int32, each
                       partition int32 | leader epoch int32
    response   topics: count int32, each
                   topic id 16 | partitions: count int32, each
                       partition int32 | outcome int8 | first offset int64 | end offset int64 |
                       progress int64 | message (nullable string)

Integers are big-endian. Encoded and decoded as generated messages are: tables by version below.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from logstore.wire.primitives import (
    UNREADABLE,
    ZERO_UUID,
    Buffer,
    Decode,
    Encode,
    Message,
    bad_count,
    bad_length,
    unreadable,
)

ADOPT_KEY: Final = 0x4C01

_LENGTH = Struct(">h")
_COUNT = Struct(">i")
_NONCE_AND_TIMEOUT = Struct(">16si")
_ID = Struct(">16s")
_TOPIC = Struct(">16si")
_PARTITION = Struct(">ii")
_RESULT = Struct(">ibqqqh")
_MESSAGE_BYTES_MAX = 2_000


class AdoptOutcome(IntEnum):
    """The answer for one partition. Only `ADOPTED` and `ALREADY` have offsets."""

    ADOPTED = 0
    ALREADY = 1
    """Adopted before: with the offsets that the first attempt got; -1 where the sink has committed
    a later batch since."""
    NOT_LEADER = 2
    """Look the leader up in Metadata and ask that one."""
    UNKNOWN_TOPIC_ID = 3
    """The topic was deleted, perhaps created again: the query cannot go on."""
    INVALID = 4
    """The manifest or a staged object is refused, for good: the message names it."""
    NOT_ALLOWED = 5
    BUSY = 6
    """Nothing was decided, or not all was adopted: ask again after a pause."""


class AdoptPartition(Message):
    """`leader_epoch`: the one that the driver saw in Metadata; -1: any."""

    __slots__ = ("leader_epoch", "partition")

    def __init__(self, partition: int = 0, leader_epoch: int = -1) -> None:
        self.partition: int = partition
        self.leader_epoch: int = leader_epoch


class AdoptTopic(Message):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[AdoptPartition] | None = None
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[AdoptPartition] = [] if partitions is None else partitions


class AdoptRequest(Message):
    __slots__ = ("manifest_key", "manifest_nonce", "timeout_ms", "topics")

    def __init__(
        self,
        manifest_key: str = "",
        manifest_nonce: bytes = ZERO_UUID,
        timeout_ms: int = 30_000,
        topics: list[AdoptTopic] | None = None,
    ) -> None:
        self.manifest_key: str = manifest_key
        self.manifest_nonce: bytes = manifest_nonce
        self.timeout_ms: int = timeout_ms
        self.topics: list[AdoptTopic] = [] if topics is None else topics


class AdoptPartitionResult(Message):
    """Offsets [first, end) that hold the batch's rows; other producers' rows may lie between.

    `progress`: how much of its work on the batch the leader has done, in no unit; -1: unknown. A
    driver gives a leader up that stays where it is, not one that needs long.
    """

    __slots__ = ("end_offset", "first_offset", "message", "outcome", "partition", "progress")

    def __init__(
        self,
        partition: int = 0,
        outcome: int = AdoptOutcome.ADOPTED,
        first_offset: int = -1,
        end_offset: int = -1,
        message: str | None = None,
        progress: int = -1,
    ) -> None:
        self.partition: int = partition
        self.outcome: int = outcome
        self.first_offset: int = first_offset
        self.end_offset: int = end_offset
        self.message: str | None = message
        self.progress: int = progress


class AdoptTopicResult(Message):
    __slots__ = ("partitions", "topic_id")

    def __init__(
        self, topic_id: bytes = ZERO_UUID, partitions: list[AdoptPartitionResult] | None = None
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[AdoptPartitionResult] = [] if partitions is None else partitions


class AdoptResponse(Message):
    __slots__ = ("topics",)

    def __init__(self, topics: list[AdoptTopicResult] | None = None) -> None:
        self.topics: list[AdoptTopicResult] = [] if topics is None else topics


def _decode_request(data: Buffer, at: int, end: int, count_max: int) -> tuple[AdoptRequest, int]:
    view = memoryview(data)
    request = AdoptRequest.__new__(AdoptRequest)
    try:
        key, at = _decode_string(view, at, end)
        if key is None:
            raise bad_length(-1, end - at)
        request.manifest_key = key
        request.manifest_nonce, request.timeout_ms = _NONCE_AND_TIMEOUT.unpack_from(view, at)
        at += _NONCE_AND_TIMEOUT.size
        topic_count, at = _decode_count(view, at, end, count_max, _TOPIC.size, "AdoptTopic")
        topics = []
        for _ in range(topic_count):
            (topic_id,) = _ID.unpack_from(view, at)
            at += _ID.size
            count, at = _decode_count(view, at, end, count_max, _PARTITION.size, "AdoptPartition")
            stop = at + count * _PARTITION.size
            items = [AdoptPartition(*one) for one in _PARTITION.iter_unpack(view[at:stop])]
            topics.append(AdoptTopic(topic_id, items))
            at = stop
        request.topics = topics
    except UNREADABLE as failure:
        raise unreadable(failure, at, request) from None
    return request, at


def _decode_response(data: Buffer, at: int, end: int, count_max: int) -> tuple[AdoptResponse, int]:
    view = memoryview(data)
    response = AdoptResponse.__new__(AdoptResponse)
    try:
        topic_count, at = _decode_count(view, at, end, count_max, _TOPIC.size, "AdoptTopicResult")
        topics = []
        for _ in range(topic_count):
            (topic_id,) = _ID.unpack_from(view, at)
            at += _ID.size
            name = "AdoptPartitionResult"
            count, at = _decode_count(view, at, end, count_max, _RESULT.size, name)
            items = []
            for _ in range(count):
                partition, outcome, first, last, progress, _ = _RESULT.unpack_from(view, at)
                message, at = _decode_string(view, at + _RESULT.size - _LENGTH.size, end)
                items.append(
                    AdoptPartitionResult(partition, outcome, first, last, message, progress)
                )
            topics.append(AdoptTopicResult(topic_id, items))
        response.topics = topics
    except UNREADABLE as failure:
        raise unreadable(failure, at, response) from None
    return response, at


def _decode_string(view: memoryview, at: int, end: int) -> tuple[str | None, int]:
    (length,) = _LENGTH.unpack_from(view, at)
    at += _LENGTH.size
    if length == -1:
        return None, at
    stop = at + length
    if not at <= stop <= end:
        raise bad_length(length, end - at)
    return str(view[at:stop], "utf-8"), stop


def _decode_count(
    view: memoryview, at: int, end: int, count_max: int, item_bytes: int, name: str
) -> tuple[int, int]:
    (count,) = _COUNT.unpack_from(view, at)
    at += _COUNT.size
    if not 0 <= count <= count_max or count * item_bytes > end - at:
        raise bad_count(name, at, count, count_max, end - at)
    return count, at


def _encode_request(request: AdoptRequest, out: bytearray, parts: list[Buffer]) -> bytearray:
    key = request.manifest_key.encode()
    out += _LENGTH.pack(len(key)) + key
    out += _NONCE_AND_TIMEOUT.pack(request.manifest_nonce, request.timeout_ms)
    out += _COUNT.pack(len(request.topics))
    for topic in request.topics:
        out += _TOPIC.pack(topic.topic_id, len(topic.partitions))
        for one in topic.partitions:
            out += _PARTITION.pack(one.partition, one.leader_epoch)
    return out


def _encode_response(response: AdoptResponse, out: bytearray, parts: list[Buffer]) -> bytearray:
    out += _COUNT.pack(len(response.topics))
    for topic in response.topics:
        out += _TOPIC.pack(topic.topic_id, len(topic.partitions))
        for one in topic.partitions:
            message = b"" if one.message is None else _cut(one.message)
            length = -1 if one.message is None else len(message)
            out += _RESULT.pack(
                one.partition, one.outcome, one.first_offset, one.end_offset, one.progress, length
            )
            out += message
    return out


def _cut(message: str) -> bytes:
    """A message of bounded length: keys that it names may be long."""
    return message.encode()[:_MESSAGE_BYTES_MAX].decode(errors="ignore").encode()


DECODE_REQUEST: dict[int, Decode[AdoptRequest]] = {0: _decode_request}
ENCODE_REQUEST: dict[int, Encode[AdoptRequest]] = {0: _encode_request}
DECODE_RESPONSE: dict[int, Decode[AdoptResponse]] = {0: _decode_response}
ENCODE_RESPONSE: dict[int, Encode[AdoptResponse]] = {0: _encode_response}
