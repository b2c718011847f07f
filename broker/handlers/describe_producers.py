"""DescribeProducers, version 0: the idempotent producers of partitions (KIP-664).

Any replica answers, as in Kafka: the leader, or a follower as far as it has followed. A coordinator
epoch is always -1: markers of transactions do not come from a coordinator here. A partition whose
producers do not fit in the answer is refused.
"""

from functools import partial

from broker.answers.budgets import check_answer
from broker.answers.error_codes import Refuse, code_of
from broker.answers.fence_check import FenceCheck, answer_after_fence_check
from broker.answers.nested_answers import answer_nested
from broker.answers.partitions import find_leader
from broker.answers.repeats import merge_topics
from broker.answers.services import Services
from broker.network.authorizer import Operation, ResourceKind
from broker.network.call import Call
from logstore.epoch.log import Topic
from logstore.errors import LogstoreError
from logstore.protocol.active_producers import ActiveProducer
from logstore.protocol.topics import BadTopicName, check_topic_name
from logstore.slices import Slices, emptied
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


def handle(broker: Services, call: Call, request: DescribeProducersRequest) -> None:
    answer_after_fence_check(broker, call, partial(_answer, broker, call, request))


def _answer(
    broker: Services, call: Call, request: DescribeProducersRequest, fence_check: FenceCheck
) -> Slices[bool]:
    response = DescribeProducersResponse()
    merged = yield from merge_topics((one.name, one.partition_indexes) for one in request.topics)
    byte_count = 0
    for name, partitions in merged.items():
        topic = broker.log.topics.get(name)
        code = fence_check or _check(broker, call, name)
        result = TopicResponse(name)
        response.topics.append(result)
        yield
        for number in partitions:
            answer = PartitionResponse(number, code)
            result.partitions.append(answer)
            if topic is not None and not code:
                yield from _partition(broker, call, topic, answer, byte_count)
                byte_count += PRODUCER_BYTES * len(answer.active_producers)
            yield
    if fence_check is None and not broker.log.has_read_lease:
        return False
    yield from emptied(merged)
    yield from emptied(request.topics)
    yield from answer_nested(call, response, ("topics", "partitions", "active_producers"))
    return True


def _check(broker: Services, call: Call, name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except BadTopicName as error:
        return code_of(error)
    if not broker.allows(call, Operation.READ, ResourceKind.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if name in broker.log.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(
    broker: Services, call: Call, topic: Topic, answer: PartitionResponse, byte_count: int
) -> Slices[None]:
    try:
        check_answer(call.api.key, byte_count)
        producers = yield from _producers_of(broker, topic, answer.partition_index)
    except LogstoreError as error:
        answer.error_code, answer.error_message = code_of(error), str(error)
        return
    for number, one in enumerate(producers, 1):
        state = ProducerState(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            NO_COORDINATOR,
            one.first_open_offset,
        )
        answer.active_producers.append(state)
        if number % 1000 == 0:
            yield


def _producers_of(broker: Services, topic: Topic, partition: int) -> Slices[list[ActiveProducer]]:
    """Raises `Refuse`."""
    leader, code = find_leader(broker, topic, partition)
    if leader is not None:
        return (yield from leader.active_producers())
    followed = topic.followers.get(partition)
    if followed is None or not followed.is_ready or not 0 <= partition < topic.partition_count:
        raise Refuse(code, "this broker has no replica of this partition that it can serve")
    return (yield from followed.active_producers())
