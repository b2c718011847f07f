"""DescribeProducers, version 0: the idempotent producers of partitions (KIP-664).

Any replica answers, as in Kafka: the leader, or a follower as far as it has followed. A coordinator
epoch is always -1: markers of transactions do not come from a coordinator here. A partition whose
producers do not fit in the answer is refused.
"""

from collections.abc import Mapping, Sequence

from broker.answers.broker import Broker
from broker.answers.decisions.budgets import check_answer
from broker.answers.decisions.refuse import Refuse
from broker.answers.decisions.repeats import merge_topics
from broker.answers.error_codes import code_of
from broker.answers.partitions import find_leader
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from broker.requests.fencing import fence_code
from broker.requests.refusals import errors_in
from logstore.epoch.log import Topic
from logstore.protocol.partitions.active_producers import ActiveProducer
from logstore.protocol.topics.life import BadTopicName, check_topic_name
from logstore.slices import Slices
from logstore.wire.errors import ErrorCode
from logstore.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NO_COORDINATOR = -1
PRODUCER_BYTES = 37
"""Of one producer in an answer."""


async def describe_producers(
    broker: Broker, call: Call, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    merged = await call.finish(
        merge_topics((one.name, one.partition_indexes) for one in request.topics)
    )
    response = DescribeProducersResponse()
    is_sure = broker.log.has_read_lease
    if is_sure:
        response.topics = await _describe(broker, call, merged, ErrorCode.NONE)
        is_sure = broker.log.has_read_lease
    if not is_sure:
        response.topics = await _describe(broker, call, merged, await fence_code(broker))
    return response


async def _describe(
    broker: Broker, call: Call, asked: Mapping[str, Sequence[int]], refusal: ErrorCode
) -> list[TopicResponse]:
    topics: list[TopicResponse] = []
    byte_count = 0
    async for name, partitions in call.each(asked.items()):
        topic = broker.log.topics.get(name)
        code = refusal or _check(broker, call, name)
        result = TopicResponse(name)
        topics.append(result)
        async for number in call.each(partitions):
            answer = PartitionResponse(number, code)
            result.partitions.append(answer)
            if topic is not None and not code:
                await _partition(broker, call, topic, answer, byte_count)
                byte_count += PRODUCER_BYTES * len(answer.active_producers)
    return topics


def _check(broker: Broker, call: Call, name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except BadTopicName as error:
        return code_of(error)
    if not broker.allows(call, Operation.READ, ResourceKind.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if name in broker.log.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _partition(
    broker: Broker, call: Call, topic: Topic, answer: PartitionResponse, byte_count: int
) -> None:
    with errors_in(answer):
        check_answer(call.api.key, byte_count)
        producers = await call.finish(_producers_of(broker, topic, answer.partition_index))
        async for one in call.each(producers):
            state = ProducerState(
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                NO_COORDINATOR,
                one.first_open_offset,
            )
            answer.active_producers.append(state)


def _producers_of(broker: Broker, topic: Topic, partition: int) -> Slices[list[ActiveProducer]]:
    """Raises `Refuse`."""
    leader, code = find_leader(broker, topic, partition)
    if leader is not None:
        return (yield from leader.active_producers())
    followed = topic.followers.get(partition)
    if followed is None or not followed.is_ready or not 0 <= partition < topic.partition_count:
        raise Refuse(code, "this broker has no replica of this partition that it can serve")
    return (yield from followed.active_producers())
