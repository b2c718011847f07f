"""Produce responses encoded by hand where nothing failed, which is nearly always.

A small Produce request costs about as much to answer as to append, and half of that is building the
response message; so the broker keeps outcomes as tuples, and packs them straight into the frame:

    size int32 | correlation id int32 | tags | topics | throttle int32 | tags
    topic      name, or id from version 13 on | partitions | tags
    partition  index int32 | error int16 | base offset int64 | log append time int64
               | log start offset int64 (5+) | record errors, error message (8+) | tags

Counts and tags are of the compact kind from version 9 on. Outcomes with errors, and those of
throttled clients, go through the generated codec, with which the tests compare these bytes.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from broker.answers.leader_hint import Hint
from logstore.slices import Slices, finish, parts_of
from logstore.wire.framing.apis import APIS, encode_frame
from logstore.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from logstore.wire.primitives import Buffer, encode_varint

API = APIS[0]
FLEXIBLE_FROM, TOPIC_IDS_FROM = 9, 13
SLICE_PARTITIONS = 500

_HEAD = Struct(">ii")
_HEAD_FLEXIBLE = Struct(">iix")
_LEGACY_COUNT = Struct(">i")
_PARTITION_FLEXIBLE = Struct(">ihqqqBxx")  # no record errors, no message, no tags
_PARTITION_8 = Struct(">ihqqqih")
_PARTITION_5 = Struct(">ihqqq")
_PARTITION_3 = Struct(">ihqq")
_NO_RECORD_ERRORS = 1
_NULL_STRING = -1
_ONE_TOPIC = encode_varint(2)
_TOPIC_END = b"\x00"
_END_FLEXIBLE = bytes(5)  # throttle time, tags
_ONE_TOPIC_END = _TOPIC_END + _END_FLEXIBLE
_AROUND_ONE_BYTES = 5 + len(_ONE_TOPIC) + _PARTITION_FLEXIBLE.size + len(_ONE_TOPIC_END)
_END = bytes(4)


class PartitionOutcome(NamedTuple):
    """The outcome of one partition's batch."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    message: str | None = None
    bad_records: Sequence[int] = ()
    hint: Hint | None = None
    """The partition's leader, where this broker is not it."""


class TopicOutcome(NamedTuple):
    name: str
    topic_id: bytes
    partitions: list[PartitionOutcome]


def encode_produce_frame(
    correlation_id: int,
    version: int,
    topics: Sequence[TopicOutcome],
    note_errors: Callable[[str, ProduceResponse], None] | None = None,
    throttle_ms: int = 0,
) -> list[Buffer]:
    """`note_errors` is called with the API's name and a response that has an error."""
    if throttle_ms:
        response = finish(produce_response_in_slices(topics))
        response.throttle_time_ms = throttle_ms
        if note_errors is not None:
            note_errors(API.name, response)
        return encode_frame(correlation_id, API, version, response)
    for topic in topics:
        for outcome in topic.partitions:
            if outcome[1]:
                response = finish(produce_response_in_slices(topics))
                if note_errors is not None:
                    note_errors(API.name, response)
                return encode_frame(correlation_id, API, version, response)
    if version >= FLEXIBLE_FROM:
        return [_encode_flexible(correlation_id, version, topics)]
    return [_encode_legacy(correlation_id, version, topics)]


def _encode_flexible(correlation_id: int, version: int, topics: Sequence[TopicOutcome]) -> bytes:
    by_id = version >= TOPIC_IDS_FROM
    if len(topics) == 1:
        name, topic_id, outcomes = topics[0]
        front = _topic_front(topic_id if by_id else name, len(outcomes))
        if len(outcomes) == 1:
            index, code, base, time_ms, start, _, _, _ = outcomes[0]
            head = _HEAD_FLEXIBLE.pack(len(front) + _AROUND_ONE_BYTES, correlation_id)
            return b"%b%b%b%b%b" % (
                head,
                _ONE_TOPIC,
                front,
                _PARTITION_FLEXIBLE.pack(index, code, base, time_ms, start, _NO_RECORD_ERRORS),
                _ONE_TOPIC_END,
            )
    parts = [b"", encode_varint(len(topics) + 1)]
    for name, topic_id, outcomes in topics:
        parts.append(_topic_front(topic_id if by_id else name, len(outcomes)))
        for index, code, base, time_ms, start, _, _, _ in outcomes:
            parts.append(
                _PARTITION_FLEXIBLE.pack(index, code, base, time_ms, start, _NO_RECORD_ERRORS)
            )
        parts.append(_TOPIC_END)
    parts.append(_END_FLEXIBLE)
    parts[0] = _HEAD_FLEXIBLE.pack(sum(map(len, parts)) + 5, correlation_id)
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _topic_front(topic: str | bytes, partition_count: int) -> bytes:
    """The bytes before the partitions of a topic, given by name or by id."""
    if isinstance(topic, str):
        encoded = topic.encode()
        topic = encode_varint(len(encoded) + 1) + encoded
    return topic + encode_varint(partition_count + 1)


def _encode_legacy(correlation_id: int, version: int, topics: Sequence[TopicOutcome]) -> bytes:
    parts = [b"", _LEGACY_COUNT.pack(len(topics))]
    for name, _, outcomes in topics:
        encoded = name.encode()
        parts += (len(encoded).to_bytes(2, "big"), encoded, _LEGACY_COUNT.pack(len(outcomes)))
        for index, code, base, time_ms, start, _, _, _ in outcomes:
            if version >= 8:
                packed = _PARTITION_8.pack(index, code, base, time_ms, start, 0, _NULL_STRING)
            elif version >= 5:
                packed = _PARTITION_5.pack(index, code, base, time_ms, start)
            else:
                packed = _PARTITION_3.pack(index, code, base, time_ms)
            parts.append(packed)
    parts.append(_END)
    parts[0] = _HEAD.pack(sum(map(len, parts)) + 4, correlation_id)
    return b"".join(parts)


def produce_response_in_slices(topics: Sequence[TopicOutcome]) -> Slices[ProduceResponse]:
    """The response that says the same."""
    leaders: dict[int, Hint] = {}
    answers: list[TopicProduceResponse] = []
    for topic in topics:
        answer = TopicProduceResponse(topic.name, topic.topic_id)
        answers.append(answer)
        for some in parts_of(topic.partitions, SLICE_PARTITIONS):
            answer.partition_responses += [_partition(one) for one in some]
            leaders.update((one.hint.broker, one.hint) for one in some if one.hint is not None)
            yield
    return ProduceResponse(
        answers,
        node_endpoints=[
            NodeEndpoint(one.broker, one.host, one.port, one.rack) for one in leaders.values()
        ],
    )


def _partition(outcome: PartitionOutcome) -> PartitionProduceResponse:
    index, code, base, time_ms, start, message, bad_records, hint = outcome
    errors = [BatchIndexAndErrorMessage(record, message) for record in bad_records]
    answer = PartitionProduceResponse(index, code, base, time_ms, start, errors, message)
    if hint is not None:
        answer.current_leader = LeaderIdAndEpoch(hint.broker, hint.leader_epoch)
    return answer
