"""DescribeTopicPartitions, version 0: topics in order of their names, a page at a time (KIP-966).

An empty list asks for all topics. A cursor says with which partition of which topic to begin; the
answer has one where the page ended before the end. Every replica is eligible to lead, always, so
the two lists of eligible ones have nothing to add.
"""

from collections.abc import Iterator, Sequence
from heapq import merge

from broker.answers.broker import Broker
from broker.answers.decisions.shown_cluster import INTERNAL_TOPICS, show_replicas
from broker.network.authorizer import TOPIC_OPERATIONS, Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.formats.partition_row import PartitionRow
from logstore.slices import parts_of
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)

SORTED_AT_ONCE = 5000
PAGE_PARTITIONS_MAX = 2000
"""Kafka's `max.request.partition.size.limit`."""


async def describe_topic_partitions(
    broker: Broker, call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    cursor, left = request.cursor, min(request.response_partition_limit, PAGE_PARTITIONS_MAX)
    if left < 1 or (cursor is not None and cursor.partition_index < 0):
        return await _refused(call, request)
    response = DescribeTopicPartitionsResponse()
    async for name in call.each(await _names(broker, call, request)):
        if left <= 0:
            response.next_cursor = ResponseCursor(name, 0)
            break
        topic = _find(broker, call, name)
        if isinstance(topic, DescribeTopicPartitionsResponseTopic):
            response.topics.append(topic)
            continue
        first = _first(cursor, name)
        page = topic.rows[first : first + left]
        response.topics.append(_describe(broker, call, topic, first, page))
        left -= len(page)
        if first + len(page) < topic.partition_count:
            response.next_cursor = ResponseCursor(name, first + len(page))
            break
    return response


async def _refused(
    call: Call, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """The answer has no error of its own: every topic says it."""
    response = DescribeTopicPartitionsResponse()
    async for asked in call.each(request.topics):
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, asked.name)
        )
    return response


async def _names(
    broker: Broker, call: Call, request: DescribeTopicPartitionsRequest
) -> Iterator[str]:
    """Returns the names asked for in order, from the cursor on."""
    start = "" if request.cursor is None else request.cursor.topic_name
    names: dict[str, None] = {}
    is_all = not request.topics
    asked = list(broker.log.topics) if is_all else [topic.name for topic in request.topics]
    async for name in call.each(asked):
        if name >= start and (
            not is_all or broker.sees(call, Operation.DESCRIBE, ResourceKind.TOPIC, name)
        ):
            names[name] = None
    runs = [sorted(part) async for part in call.each(parts_of(list(names), SORTED_AT_ONCE))]
    return merge(*runs)


def _first(cursor: Cursor | None, name: str) -> int:
    """Of the partitions of `name` that this page shows."""
    return cursor.partition_index if cursor is not None and cursor.topic_name == name else 0


def _find(broker: Broker, call: Call, name: str) -> Topic | DescribeTopicPartitionsResponseTopic:
    if not broker.allows(call, Operation.DESCRIBE, ResourceKind.TOPIC, name):
        return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = broker.log.topics.get(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
    return topic


def _describe(
    broker: Broker, call: Call, topic: Topic, first: int, page: Sequence[PartitionRow]
) -> DescribeTopicPartitionsResponseTopic:
    live = frozenset(broker.log.live_brokers())
    partitions = []
    for number, row in enumerate(page, first):
        shown = show_replicas(row.broker, row.replicas, live)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                shown.error,
                number,
                shown.leader,
                row.leader_epoch,
                list(shown.replicas),
                list(shown.in_sync),
                [],
                [],
                list(shown.offline),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.name in INTERNAL_TOPICS,
        partitions,
        broker.allowed_bits(call, TOPIC_OPERATIONS, ResourceKind.TOPIC, topic.name),
    )
