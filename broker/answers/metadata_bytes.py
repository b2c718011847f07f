"""Metadata responses put together from topics that were encoded before.

    response    ... | count of topics | topics | tail
    topic       error int16 | name | id (10+) | internal (1+) | count | partitions | tail
    partition   error int16 | index int32 | leader int32 | leader epoch int32 (7+)
                | replicas | in sync | offline (5+) | empty tag section (9+)

Arrays of brokers are a count and int32s. A tail has a fixed size in every version: of the response
cluster authorized operations (int32, 8 to 10), the error code (int16, 13), a tag section (9+); of a
topic its authorized operations (int32, 8+), a tag section (9+). So an encoding without topics, or
without partitions, shows where they go.

The generic encoder takes 30 ms for 10,000 partitions. Here all partitions of one leader and one
list of replicas share their last bytes, and the bytes of a topic are kept while its rows, and who
is alive, stay the same.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS, ShownReplicas, show_replicas
from logstore.epoch.log import Topic
from logstore.formats.partition_row import PartitionRow
from logstore.wire.framing.apis import APIS, encode_frame
from logstore.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from logstore.wire.primitives import Buffer, encode_varint

API = APIS[3]
OFFLINE_FROM, EPOCH_FROM, FLEXIBLE_FROM = 5, 7, 9
TAIL_BYTES = {**dict.fromkeys(range(8), 0), 8: 4, 9: 5, 10: 5, 11: 1, 12: 1, 13: 3}
TOPIC_TAIL_BYTES = {**dict.fromkeys(range(8), 0), 8: 4, **dict.fromkeys(range(9, 14), 5)}
NOT_ASKED = -(2**31)
"""Instead of authorized operations."""

_OLD_HEAD = Struct(">hii")
_HEAD = Struct(">hiii")
_EMPTY = MetadataResponse()


class _Shared(NamedTuple):
    """The part of the answer that partitions with the same leader and replicas share."""

    error: int
    leader: int
    rest: bytes


class EncodedTopic(NamedTuple):
    data: bytes
    errors: Mapping[int, int]
    """How many of its partitions have which error code."""


class MetadataBytes:
    """Encoded topics, by id and version; `see` and `forget` keep them true."""

    def __init__(self) -> None:
        self._live: Collection[int] = ()
        self._known: dict[bytes, dict[int, EncodedTopic]] = {}
        self._shared: dict[tuple[int, int, tuple[int, ...]], _Shared] = {}

    def see(self, live: Collection[int]) -> None:
        """These brokers are alive now."""
        if live != self._live:
            self._live = live
            self._known.clear()
            self._shared.clear()

    def forget(self, topic_id: bytes) -> None:
        """Its rows are others now."""
        self._known.pop(topic_id, None)

    def topic(self, version: int, topic: Topic, operations: int = NOT_ASKED) -> EncodedTopic:
        """`operations`, which depend on the client, are not kept."""
        if operations != NOT_ASKED:
            return self._encode(version, topic, operations)
        versions = self._known.setdefault(topic.topic_id, {})
        known = versions.get(version)
        if known is None:
            known = versions[version] = self._encode(version, topic, NOT_ASKED)
        return known

    def _encode(self, version: int, topic: Topic, operations: int) -> EncodedTopic:
        is_internal = topic.name in INTERNAL_TOPICS
        empty = MetadataResponseTopic(0, topic.name, topic.topic_id, is_internal, [], operations)
        errors: Counter[int] = Counter()
        partitions = self._partitions(version, topic.rows, errors)
        tail_bytes = TOPIC_TAIL_BYTES[version]
        data = _insert(encode_topic(version, empty), tail_bytes, version, partitions)
        return EncodedTopic(data, errors)

    def _partitions(
        self, version: int, rows: Sequence[PartitionRow], errors: Counter[int]
    ) -> list[bytes]:
        """Their error codes are counted in `errors`."""
        shape, known = min(version, FLEXIBLE_FROM), self._shared
        encoded = []
        for number, row in enumerate(rows):
            key = (shape, row.broker, row.replicas)
            shared = known.get(key)
            if shared is None:
                shown = show_replicas(row.broker, row.replicas, self._live)
                rest = _replicas(version, shown)
                shared = known[key] = _Shared(shown.error, shown.leader, rest)
            error, leader, rest = shared
            if error:
                errors[error] += 1
            if version >= EPOCH_FROM:
                encoded.append(_HEAD.pack(error, number, leader, row.leader_epoch) + rest)
            else:
                encoded.append(_OLD_HEAD.pack(error, number, leader) + rest)
        return encoded


def encode_topic(version: int, topic: MetadataResponseTopic) -> bytes:
    whole = _body(version, MetadataResponse(topics=[topic]))
    tail = TAIL_BYTES[version]
    front = len(_body(version, _EMPTY)) - tail
    return whole[front : len(whole) - tail]


def frame_with_topics(
    correlation_id: int, version: int, response: MetadataResponse, topics: Sequence[bytes]
) -> list[Buffer]:
    """The frame of `response`, which has no topics, with `topics`."""
    frame = b"".join(encode_frame(correlation_id, API, version, response))
    whole = _insert(frame, TAIL_BYTES[version], version, topics)
    return [(len(whole) - 4).to_bytes(4, "big"), memoryview(whole)[4:]]


def _insert(empty: bytes, tail_bytes: int, version: int, items: Sequence[bytes]) -> bytes:
    """Put `items` where `empty` has an array of none before its tail."""
    tail_at = len(empty) - tail_bytes
    front_end = tail_at - (1 if version >= FLEXIBLE_FROM else 4)
    return b"".join((empty[:front_end], _count(version, len(items)), *items, empty[tail_at:]))


def _replicas(version: int, shown: ShownReplicas) -> bytes:
    lists = [shown.replicas, shown.in_sync]
    if version >= OFFLINE_FROM:
        lists.append(shown.offline)
    encoded = b"".join(_count(version, len(ids)) + _int32s(ids) for ids in lists)
    return encoded + b"\0" if version >= FLEXIBLE_FROM else encoded


def _int32s(numbers: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)


def _count(version: int, count: int) -> bytes:
    if version < FLEXIBLE_FROM:
        return count.to_bytes(4, "big")
    return bytes(encode_varint(count + 1))


def _body(version: int, response: MetadataResponse) -> bytes:
    parts: list[Buffer] = []
    API.encode_response(version, response, parts)
    return b"".join(parts)
